import { useEffect, useRef, useState } from "react";
import { Value } from "../lib/value";
import { styled } from "./look";

const IDLE_MS = 3000;
const AGAIN_MS = 2000;
const SOON_MS = 200;
const waiting: (() => Promise<unknown>)[] = [];

/** Whether all of it has come. */
export const complete = new Value(false);

/** Code that is not needed for the first look: it comes when it is asked for, or when the browser has nothing else to do, so that it is
 * there also when the server is away. If it is needed and the server is away just then, it comes as soon as the server is back. */
export function later<T>(load: () => Promise<T>): () => Promise<T> {
  const all = styled(load);
  const patiently = async () => {
    for (;;) {
      try {
        return await all();
      } catch {
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    }
  };
  waiting.push(patiently);
  return patiently;
}

/** Loads all of it, one after the other, when there is time and the page does not wait for what it shows. */
export function loadTheRest(waits: () => boolean) {
  const idle = "requestIdleCallback" in window ? requestIdleCallback : (work: () => void) => setTimeout(work, IDLE_MS);
  const next = async () => {
    if (waits()) {
      setTimeout(() => idle(next), SOON_MS);
      return;
    }
    const load = waiting.shift();
    await load?.();
    if (load === undefined) complete.set(true);
    else idle(next);
  };
  idle(next);
}

/** For a menu that is made as it is opened: its button takes the place of the one that was pressed, with the focus, so that it
 * returns there when the menu is closed. */
export function useFirstMenu() {
  const [opened, setOpened] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    button.current?.focus();
    setOpened(true);
  }, []);
  return { opened, setOpened, button };
}
