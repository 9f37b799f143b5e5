import { Value } from "../lib/value";

interface Question {
  title: string;
  consequence: string;
  action: string;
  typed?: string; // has to be typed first, where much would be lost by a slip
  answer: (yes: boolean) => void;
}

export const asked = new Value<Question | null>(null);

/** Asks before something that cannot be undone. */
export function confirm(question: Omit<Question, "answer">): Promise<boolean> {
  return new Promise((answer) => asked.set({ ...question, answer }));
}

/** Whether what was typed is what was asked for: figures also with separators between thousands. */
export const isTyped = (asked: string, typed: string) => typed.replace(/[\s.,'’]/g, "") === asked.replace(/\s/g, "");
