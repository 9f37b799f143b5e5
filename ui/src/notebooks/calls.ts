import { ApiError, api, body } from "../api/client";
import type { components } from "../api/schema";
import { offered } from "../api/session";
import type { Language } from "../code/commands";

export type Version = components["schemas"]["NotebookVersion"];

/** A notebook as the workspace has it. `etag`: of its content; a workspace of Databricks knows none. */
export interface Stored {
  objectId: number;
  language: Language;
  source: string;
  etag: string;
  modified: number; // epoch ms
}

/** What is at the path is no notebook. */
export class NoNotebook extends ApiError {
  constructor(message: string) {
    super(400, "INVALID_PARAMETER_VALUE", message, "");
  }
}

/** Somebody else has changed the notebook since it was read. */
export class Overtaken extends Error {}

const decoded = (content: string) =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0)));

function encoded(text: string): string {
  let found = "";
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += 0x8000) found += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(found);
}

const status = (path: string) => body(api.GET("/api/2.0/workspace/get-status", { params: { query: { path } } }));

export async function modifiedAt(path: string): Promise<number> {
  return (await status(path)).modified_at;
}

/** What has been changed between the two calls is newer than `modified`, and is read again. */
export async function read(path: string): Promise<Stored> {
  const found = await status(path);
  if (found.object_type !== "NOTEBOOK" || !found.language)
    throw new NoNotebook(`${path} is a ${found.object_type.toLowerCase()}, not a notebook.`);
  const query = { path, format: "SOURCE" as const };
  const exported = await body(api.GET("/api/2.0/workspace/export", { params: { query } }));
  const { content, etag } = exported as components["schemas"]["ExportResponse"]; // not a download
  return {
    objectId: found.object_id,
    language: found.language.toLowerCase() as Language,
    source: decoded(content),
    etag: etag ?? "",
    modified: found.modified_at,
  };
}

interface Writing {
  path: string;
  language: Language;
  source: string;
  /** What is replaced: another content is not. Without it, whatever is there. */
  base?: Pick<Stored, "etag" | "source">;
  keepalive?: boolean; // the page is being left
}

const MOST_KEPT_ALIVE = 60_000; // characters; browsers refuse more

/** Replaces the content and returns its etag. Throws Overtaken. */
export async function write({ path, language, source, base, keepalive = false }: Writing): Promise<string> {
  // Databricks has no condition of its own: what changes between this look and the import is lost.
  if (base !== undefined && base.etag === "" && (await read(path)).source !== base.source) throw new Overtaken();
  const content = encoded(source);
  const more = base?.etag ? { expected_etag: base.etag } : {};
  const asked = api.POST("/api/2.0/workspace/import", {
    keepalive: keepalive && content.length < MOST_KEPT_ALIVE,
    body: { path, content, format: "SOURCE", language: language.toUpperCase() as "PYTHON", overwrite: true, ...more },
  });
  try {
    return (await body(asked)).etag ?? "";
  } catch (error) {
    if (error instanceof ApiError && error.code === "ABORTED") throw new Overtaken();
    throw error;
  }
}

export const hasVersions = () => offered("/api/2.1/workspace/versions/list");

export async function versions(path: string): Promise<Version[]> {
  return (await body(api.GET("/api/2.1/workspace/versions/list", { params: { query: { path } } }))).versions ?? [];
}

export async function version(path: string, version_id: string): Promise<string> {
  const query = { path, version_id };
  return decoded((await body(api.GET("/api/2.1/workspace/versions/export", { params: { query } }))).content);
}
