import { useEffect, useRef, useState } from "react";
import type { Grant, Library } from "./calls";
import { type KeptChange, keptOf, restored, withoutCredentials } from "./drafts";
import type { Spec } from "./spec";

/** A draft in this tab's storage. `base`: what it changes. */
export interface Stored<T> {
  at: number;
  draft: T;
  base?: object;
}

const keyOf = (user: string, form: string) => `brickyard.draft.${user}.${form}`;

function read<T>(key: string): Stored<T> | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(key) ?? "null") as Stored<T> | null) ?? undefined;
  } catch {
    return undefined; // a browser without storage, or a text of something else
  }
}

function write(key: string, stored: Stored<unknown> | undefined) {
  try {
    if (stored === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(stored));
  } catch {
    // A browser without storage forgets it with the page.
  }
}

/** What was typed into a user's form before the page was loaded again. It ends with the tab, and when the form is left: what is left
 * on purpose is not wanted any more. */
export function useStored<T>(user: string, form: string) {
  const key = keyOf(user, form);
  const [found] = useState(() => read<T>(key));
  const text = useRef("");
  useEffect(() => () => write(key, undefined), [key]);
  /** Keeps the draft; undefined: there is none. */
  const keep = (draft: T | undefined, base?: object) => {
    const now = draft === undefined ? "" : JSON.stringify({ draft, base });
    if (now === text.current && now !== "") return;
    text.current = now;
    write(key, draft === undefined ? undefined : { at: Date.now(), draft, base });
  };
  return { found, keep };
}

interface Typed {
  base: Spec;
  draft: Spec;
  libraries: Library[];
  grants?: Grant[];
}
type Kept = Omit<Typed, "base" | "draft"> & { changes: KeptChange[] };

/** The same for a cluster's form: `back` is what was typed, on what is saved by now. */
export function useTyped(user: string, form: string, saved: Spec) {
  const { found, keep } = useStored<Kept>(user, form);
  const [back] = useState(() => {
    if (found === undefined) return undefined;
    const { changes, ...rest } = found.draft;
    return { at: found.at, ...rest, ...restored(saved, changes) };
  });
  return {
    back,
    keep: (typed: Typed | undefined) => {
      if (typed === undefined) return keep(undefined);
      const { base, draft, libraries, grants } = typed;
      keep({ changes: keptOf(base, draft), libraries: withoutCredentials(libraries), ...(grants && { grants }) });
    },
  };
}
