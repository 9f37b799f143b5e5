import { useState } from "react";
import { Value } from "./value";

/** A value that this browser remembers and all components follow. Another tab's change counts here as well. */
export function keptValue<T>(name: string, initial: T): Value<T> {
  const key = `brickyard.${name}`;
  const read = (text: string | null): T => {
    try {
      return text === null ? initial : (JSON.parse(text) as T);
    } catch {
      return initial;
    }
  };
  const stored = () => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // a browser without storage remembers nothing
    }
  };
  const value = new Value(read(stored()));
  value.subscribe(() => {
    const text = JSON.stringify(value.get());
    if (text === stored()) return;
    try {
      localStorage.setItem(key, text);
    } catch {
      // It is forgotten with the page.
    }
  });
  addEventListener("storage", (event) => {
    if (event.key === key) value.set(read(event.newValue));
  });
  return value;
}

/** A choice that this browser remembers. */
export function useKept<T>(name: string, initial: T): [T, (value: T) => void] {
  const key = `brickyard.${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = localStorage.getItem(key);
      return kept === null ? initial : (JSON.parse(kept) as T);
    } catch {
      return initial;
    }
  });
  const keep = (next: T) => {
    setValue(next);
    try {
      localStorage.setItem(key, JSON.stringify(next));
    } catch {
      // A browser without storage forgets the choice.
    }
  };
  return [value, keep];
}

/** A text that is being typed: it outlives the page, in this tab. */
export function useKeptText(name: string): [string, (text: string) => void] {
  const key = `brickyard.text.${name}`;
  const [text, setText] = useState(() => {
    try {
      return sessionStorage.getItem(key) ?? "";
    } catch {
      return "";
    }
  });
  const keep = (next: string) => {
    setText(next);
    try {
      if (next === "") sessionStorage.removeItem(key);
      else sessionStorage.setItem(key, next);
    } catch {
      // A browser without storage forgets it with the page.
    }
  };
  return [text, keep];
}
