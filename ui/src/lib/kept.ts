import { useState } from "react";

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
