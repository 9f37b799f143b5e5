import { Value } from "../lib/value";

interface Question {
  title: string;
  consequence: string;
  action: string;
  answer: (yes: boolean) => void;
}

export const asked = new Value<Question | null>(null);

/** Asks before something that cannot be undone. */
export function confirm(question: Omit<Question, "answer">): Promise<boolean> {
  return new Promise((answer) => asked.set({ ...question, answer }));
}
