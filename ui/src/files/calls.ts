import { infiniteQueryOptions } from "@tanstack/react-query";
import { ApiError, api, body, LostConnection } from "../api/client";
import { session } from "../api/session";
import { apiPath, type Entry, holds, inUrl, nameOf, partsOf, rootOf } from "./paths";

const FILES = "/api/2.0/fs/files";
const DIRECTORIES = "/api/2.0/fs/directories";
const WORKSPACE = "/api/2.0/workspace-files";
const DBFS_BLOCK = 512 * 1024; // bytes; the API takes 1 MiB in base64

interface Listing {
  entries: Entry[];
  next?: string;
}

/** The error that an answer of a call outside of the typed client says. */
export async function failure(response: Response): Promise<never> {
  if (response.status === 401) session.expire();
  const said = (await response.json().catch(() => ({}))) as Record<string, string | undefined>;
  const message = said.message ?? `The server answered with status ${response.status}.`;
  throw new ApiError(
    response.status,
    said.error_code ?? String(response.status),
    message,
    response.headers.get("x-request-id") ?? "",
  );
}

/** A call whose path has slashes, which the typed client would escape. */
async function call(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (method !== "GET") headers.set("X-CSRF-Token", (await session.get()).csrf_token);
  let response: Response;
  try {
    response = await fetch(path, { ...init, method, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new LostConnection();
  }
  return response.ok ? response : await failure(response);
}

export const listingQuery = (path: string) =>
  infiniteQueryOptions({
    queryKey: ["files", path],
    initialPageParam: "",
    queryFn: ({ pageParam }) => list(path, pageParam),
    getNextPageParam: (last: Listing) => last.next || undefined,
  });

async function list(path: string, token: string): Promise<Listing> {
  const under = (name: string) => `${path}/${name}`;
  if (path === "/Volumes") {
    const found = await body(api.GET("/api/2.1/unity-catalog/catalogs"));
    const names = (found.catalogs ?? []).map((each) => each.name);
    return { entries: names.map((name) => ({ name, path: under(name), directory: true })) };
  }
  if (rootOf(path) === "Volumes") {
    const query = token ? `?page_token=${encodeURIComponent(token)}` : "";
    const found = (await (await call("GET", `${DIRECTORIES}${inUrl(path)}${query}`)).json()) as {
      contents?: { path: string; name: string; is_directory: boolean; last_modified: number; file_size?: number }[];
      next_page_token?: string;
    };
    const entries = (found.contents ?? []).map((each) => ({
      path: under(each.name),
      name: each.name,
      directory: each.is_directory,
      size: each.file_size,
      modified: each.last_modified,
    }));
    return { entries, next: found.next_page_token };
  }
  const query = { path: apiPath(path) };
  if (rootOf(path) === "dbfs") {
    const found = await body(api.GET("/api/2.0/dbfs/list", { params: { query } }));
    const entries = found.files.map((each) => ({
      path: `/dbfs${each.path}`,
      name: nameOf(each.path),
      directory: each.is_dir,
      size: each.is_dir ? undefined : each.file_size,
      modified: each.modification_time,
    }));
    return { entries };
  }
  const found = await body(api.GET("/api/2.0/workspace/list", { params: { query } }));
  const entries = (found.objects ?? []).map((each) => ({
    path: `/Workspace${each.path}`,
    name: nameOf(each.path),
    directory: each.object_type === "DIRECTORY",
    notebook: each.object_type === "NOTEBOOK",
    size: each.size ?? undefined,
    modified: each.modified_at,
  }));
  return { entries };
}

/** Creates what the directory holds: a schema, a volume or a directory. */
export async function create(parent: string, name: string): Promise<void> {
  const path = `${parent}/${name}`;
  const [, catalog_name = "", schema_name = ""] = partsOf(parent);
  const kind = holds(parent);
  if (kind === "schema")
    await body(api.POST("/api/2.1/unity-catalog/schemas", { body: { name, catalog_name } as never }));
  else if (kind === "volume") {
    const made = { catalog_name, schema_name, name, volume_type: "MANAGED" };
    await body(api.POST("/api/2.1/unity-catalog/volumes", { body: made as never }));
  } else if (rootOf(path) === "Volumes") await call("PUT", `${DIRECTORIES}${inUrl(path)}`);
  else if (rootOf(path) === "dbfs") await body(api.POST("/api/2.0/dbfs/mkdirs", { body: { path: apiPath(path) } }));
  else await body(api.POST("/api/2.0/workspace/mkdirs", { body: { path: apiPath(path) } }));
}

/** Creates a notebook with one empty cell. What is there already is not replaced. */
export async function createNotebook(path: string, language: "PYTHON" | "SQL"): Promise<void> {
  const asked = { path, language, content: "", format: "SOURCE" as const, overwrite: false };
  await body(api.POST("/api/2.0/workspace/import", { body: asked }));
}

/** Deletes it, with what is in it where the API does that: a volume, and directories outside of volumes. */
export async function remove({ path, directory }: Entry, parent: string): Promise<void> {
  const full = partsOf(path).slice(1).join(".");
  const kind = holds(parent);
  if (kind === "schema")
    await body(api.DELETE("/api/2.1/unity-catalog/schemas/{full_name}", { params: { path: { full_name: full } } }));
  else if (kind === "volume")
    await body(api.DELETE("/api/2.1/unity-catalog/volumes/{name}", { params: { path: { name: full } } }));
  else if (rootOf(path) === "Volumes") await call("DELETE", `${directory ? DIRECTORIES : FILES}${inUrl(path)}`);
  else if (rootOf(path) === "dbfs")
    await body(api.POST("/api/2.0/dbfs/delete", { body: { path: apiPath(path), recursive: directory } }));
  else await body(api.POST("/api/2.0/workspace/delete", { body: { path: apiPath(path), recursive: directory } }));
}

/** Where a browser can fetch the whole file; undefined: it has to be read block by block. */
export function linkTo({ path, notebook }: Entry): string | undefined {
  if (notebook)
    return `/api/2.0/workspace/export?direct_download=true&format=SOURCE&path=${encodeURIComponent(apiPath(path))}`;
  if (rootOf(path) === "Volumes") return `${FILES}${inUrl(path)}`;
  return rootOf(path) === "Workspace" ? `${WORKSPACE}${inUrl(apiPath(path))}` : undefined;
}

/** The beginning of a file, at most so many bytes. */
export async function beginning(entry: Entry, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const link = linkTo(entry);
  if (link === undefined) return await joined(blocks(entry.path, most));
  if (entry.size === 0) return new Uint8Array();
  const response = await call("GET", link, { headers: { Range: `bytes=0-${most - 1}` } });
  return new Uint8Array(await response.arrayBuffer()).slice(0, most);
}

async function* blocks(path: string, most: number): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (let offset = 0; offset < most; ) {
    const length = Math.min(DBFS_BLOCK, most - offset);
    const query = { path: apiPath(path), offset, length };
    const found = await body(api.GET("/api/2.0/dbfs/read", { params: { query } }));
    if (found.bytes_read === 0) return;
    offset += found.bytes_read;
    yield Uint8Array.from(atob(found.data), (sign) => sign.charCodeAt(0));
  }
}

async function joined(parts: AsyncGenerator<Uint8Array<ArrayBuffer>>): Promise<Uint8Array<ArrayBuffer>> {
  const found: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of parts) found.push(part);
  return new Uint8Array(await new Blob(found).arrayBuffer());
}

/** All of a file that has no address of its own. */
export async function whole(path: string): Promise<Blob> {
  const found: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of blocks(path, Number.MAX_SAFE_INTEGER)) found.push(part);
  return new Blob(found);
}
