import { api, body, LostConnection, words } from "../api/client";
import { session } from "../api/session";
import { Value } from "../lib/value";
import { failure } from "./calls";
import { apiPath, inUrl, nameOf, rootOf } from "./paths";

export interface Upload {
  id: number;
  path: string;
  size: number;
  sent: number;
  state: "waiting" | "sending" | "done" | "failed" | "cancelled";
  reason: string;
}

const PART = 8 << 20; // bytes: below what a page in front of another workspace passes on
const BLOCK = 512 * 1024; // of DBFS
const URLS = 1; // asked for at once

/** What this tab uploads and has uploaded. It goes on while other pages are looked at. */
export const uploads = new Value<Upload[]>([]);
const cancels = new Map<number, AbortController>();
let last = 0;
let queue: Promise<unknown> = Promise.resolve();

function change(id: number, changed: Partial<Upload>) {
  uploads.set(uploads.get().map((each) => (each.id === id ? { ...each, ...changed } : each)));
}

export const cancel = (id: number) => cancels.get(id)?.abort();
export const forget = () =>
  uploads.set(uploads.get().filter((each) => each.state === "waiting" || each.state === "sending"));

/** Uploads a file, after those that are uploaded already. `done` is called when it is there. */
export function upload(file: File, path: string, overwrite: boolean, done: () => void) {
  const id = ++last;
  const control = new AbortController();
  cancels.set(id, control);
  uploads.set([...uploads.get(), { id, path, size: file.size, sent: 0, state: "waiting", reason: "" }]);
  const work = async () => {
    try {
      control.signal.throwIfAborted();
      change(id, { state: "sending" });
      await send(file, path, overwrite, control.signal, (sent) => change(id, { sent }));
      change(id, { state: "done", sent: file.size });
      done();
    } catch (error) {
      if (control.signal.aborted) change(id, { state: "cancelled" });
      else change(id, { state: "failed", reason: words(error) });
    }
    cancels.delete(id);
  };
  queue = queue.then(work);
}

type Progress = (sent: number) => void;

async function send(file: File, path: string, overwrite: boolean, signal: AbortSignal, progress: Progress) {
  if (rootOf(path) === "dbfs") return await toDbfs(file, path, overwrite, signal, progress);
  if (rootOf(path) === "Workspace") {
    await put(
      "POST",
      `/api/2.0/workspace-files/import-file${inUrl(apiPath(path))}?overwrite=${overwrite}`,
      file,
      signal,
      progress,
    );
    return;
  }
  if (file.size <= PART)
    await put("PUT", `/api/2.0/fs/files${inUrl(path)}?overwrite=${overwrite}`, file, signal, progress);
  else await inParts(file, path, overwrite, signal, progress);
}

/** Sends a body with its progress, which `fetch` does not tell. Answers with the ETag. */
async function put(
  method: string,
  url: string,
  content: Blob,
  signal: AbortSignal,
  progress: Progress,
): Promise<string> {
  const { csrf_token } = await session.get();
  const response = await new Promise<Response>((answer, fail) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.setRequestHeader("X-CSRF-Token", csrf_token);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onload = () => {
      const headers = { etag: request.getResponseHeader("etag") ?? "" };
      const empty = request.status === 204 || request.responseText === "";
      answer(new Response(empty ? null : request.responseText, { status: request.status, headers }));
    };
    request.onerror = () => fail(new LostConnection());
    request.onabort = () => fail(signal.reason);
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(content);
  });
  if (!response.ok) await failure(response);
  return response.headers.get("etag") ?? "";
}

async function post(url: string, content: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "X-CSRF-Token": (await session.get()).csrf_token, "Content-Type": "application/json" },
    body: JSON.stringify(content),
  });
  if (!response.ok) await failure(response);
  return (await response.json().catch(() => ({}))) as Record<string, unknown>;
}

/** A large file in a volume: what has arrived becomes the file in one step, or is thrown away. */
async function inParts(file: File, path: string, overwrite: boolean, signal: AbortSignal, progress: Progress) {
  const url = `/api/2.0/fs/files${inUrl(path)}`;
  const begun = await post(`${url}?action=initiate-upload&overwrite=${overwrite}`, {});
  const token = (begun.multipart_upload as { session_token: string }).session_token;
  try {
    const parts: { part_number: number; etag: string }[] = [];
    for (let start = 0; start < file.size; start += PART) {
      const number = parts.length + 1;
      const asked = { path, session_token: token, start_part_number: number, count: URLS };
      const found = await body(api.POST("/api/2.0/fs/create-upload-part-urls", { body: asked as never }));
      const place = new URL(found.upload_part_urls[0]?.url ?? "", location.origin);
      const part = file.slice(start, start + PART);
      const etag = await put("PUT", place.pathname + place.search, part, signal, (sent) => progress(start + sent));
      parts.push({ part_number: number, etag });
    }
    await post(`${url}?action=complete-upload&upload_type=multipart&session_token=${encodeURIComponent(token)}`, {
      parts,
    });
  } catch (error) {
    await post(`${url}?action=abort-upload&session_token=${encodeURIComponent(token)}`, {}).catch(() => {});
    throw error;
  }
}

/** DBFS takes blocks of base64. */
async function toDbfs(file: File, path: string, overwrite: boolean, signal: AbortSignal, progress: Progress) {
  const { handle } = await body(api.POST("/api/2.0/dbfs/create", { body: { path: apiPath(path), overwrite } }));
  for (let start = 0; start < file.size; start += BLOCK) {
    signal.throwIfAborted();
    const data = await base64(file.slice(start, start + BLOCK));
    await body(api.POST("/api/2.0/dbfs/add-block", { body: { handle, data }, signal }));
    progress(Math.min(file.size, start + BLOCK));
  }
  await body(api.POST("/api/2.0/dbfs/close", { body: { handle } }));
}

async function base64(part: Blob): Promise<string> {
  const bytes = new Uint8Array(await part.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export const nameOfUpload = (each: Upload) => nameOf(each.path);
