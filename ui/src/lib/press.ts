import { useState } from "react";
import { useValue, Value } from "./value";

/** Whether a button of the mouse is down, until the click that it makes is over. */
export class Press {
  readonly held = new Value(false);
  #release: ReturnType<typeof setTimeout> | undefined;

  begin = () => {
    clearTimeout(this.#release);
    this.held.set(true);
  };

  end = () => {
    if (!this.held.get()) return;
    clearTimeout(this.#release);
    this.#release = setTimeout(() => this.held.set(false));
  };
}

const press = new Press();
if (typeof window !== "undefined") {
  window.addEventListener("mousedown", press.begin, true); // before the focus leaves a field
  const over = ["mouseup", "dragend", "contextmenu", "keydown"];
  for (const name of over) window.addEventListener(name, press.end, true);
  window.addEventListener("mousemove", (event) => event.buttons === 0 && press.end(), true); // a menu of the system took the release
}

/**
 * The value, as it was before the press while the mouse is held. A message that appears meanwhile, because a field has lost the focus or
 * an answer has come, moves the button away from under the pointer: then the browser makes no click of the press.
 */
export function useStill<T>(value: T): T {
  const held = useValue(press.held);
  const [still, setStill] = useState<{ value: T }>({ value });
  if (held || Object.is(still.value, value)) return still.value;
  setStill({ value });
  return value;
}
