/** What was typed and is not saved yet, in the browser's storage: it outlives a reload, a closed tab and a server that is gone. */
export interface Draft {
  source: string;
  base: { etag: string; source: string }; // what it changes
  at: number; // epoch ms
}

const keyOf = (user: string, path: string) => `brickyard.notebook.${user}.${path}`;

export function readDraft(user: string, path: string): Draft | undefined {
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(user, path)) ?? "null") as Draft | null;
    return typeof found?.source === "string" && typeof found.base?.etag === "string" ? found : undefined;
  } catch {
    return undefined; // a browser without storage, or a text of something else
  }
}

/** Whether the browser keeps it. */
export function writeDraft(user: string, path: string, draft: Draft): boolean {
  try {
    localStorage.setItem(keyOf(user, path), JSON.stringify(draft));
    return true;
  } catch {
    return false; // no storage, or a full one
  }
}

/** Forgets the draft, unless another tab has written another one since. */
export function forgetDraft(user: string, path: string, source: string) {
  if (readDraft(user, path)?.source !== source) return;
  try {
    localStorage.removeItem(keyOf(user, path));
  } catch {
    // There is no storage, and so no draft.
  }
}
