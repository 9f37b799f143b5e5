/** What a field of a parameter holds. */
export interface Given {
  type: string; // of SQL
  value: string;
}

/** A text of the SQL editor. */
export interface Draft {
  id: number;
  text: string;
  given: Record<string, Given>; // by the parameter's name
}

export const EMPTY: Draft = { id: 1, text: "", given: {} };
const NAME = /^\s*--[ \t]*(\S.{0,39})/;

/** The drafts with a text in a new one, or in the last one if it is empty; and its id. */
export function added(drafts: Draft[], text: string): [Draft[], number] {
  const last = drafts.at(-1);
  if (last?.text.trim() === "" && text !== "") return [changed(drafts, last.id, { text }), last.id];
  const id = Math.max(0, ...drafts.map((each) => each.id)) + 1;
  return [[...drafts, { id, text, given: {} }], id];
}

export const changed = (drafts: Draft[], id: number, change: Partial<Draft>): Draft[] =>
  drafts.map((each) => (each.id === id ? { ...each, ...change } : each));

export function removed(drafts: Draft[], id: number): Draft[] {
  const rest = drafts.filter((each) => each.id !== id);
  return rest.length > 0 ? rest : [EMPTY];
}

/** A first line that is a comment names the draft. */
export const nameOf = ({ id, text }: Draft) => NAME.exec(text)?.[1]?.trim() ?? `Query ${id}`;
