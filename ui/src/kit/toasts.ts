import { Value } from "../lib/value";
import { later } from "./later";
import type { Progress } from "./notices";

/** Whether there has been a message: what shows them is made with the first. */
export const toasting = new Value(false);

/** What cannot be shown yet, perhaps since the server is away: it is shown plainly until then. */
export const early = new Value<string[]>([]);

export const loadNotices = later(() => import("./notices"));

interface How {
  failed?: boolean; // it is shown until it is closed
  stays?: boolean; // likewise
}

/** Says for a moment what was done. */
export function toast(text: string, how: How = {}) {
  toasting.set(true);
  early.set([...early.get(), text]);
  void loadNotices().then((notices) => {
    early.set(early.get().filter((each) => each !== text));
    notices.show(text, how);
  });
}

/** Says what is being done, until it ends. `stop`: what the reader can do about it. */
export function progress(text: string, stop: { label: string; act: () => void }): Progress {
  toasting.set(true);
  const shown = loadNotices().then((notices) => notices.begin(text, stop));
  return {
    update: (next) => void shown.then((each) => each.update(next)),
    end: () => void shown.then((each) => each.end()),
  };
}
