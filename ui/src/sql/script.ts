import { SPARK_SQL } from "../code/language";

/** A statement, and where it is in the text. */
export interface Piece {
  from: number;
  to: number;
  sql: string;
}

const BLOCK = /^begin\b/i;
const PARAMETER = /^:[a-z_]\w*$/i;
const PLACE = /\bline (\d+),? pos(?:ition)? (\d+)/;
const WORD = /^[\w$`.]+/;
const SESSION = /^(use|set|reset|declare)\b|^create\s+(or\s+replace\s+)?(global\s+)?temp(orary)?\b/i;

const parsed = (text: string) => SPARK_SQL.language.parser.parse(text);

/** The statements of a text, without their semicolons. One that begins with BEGIN is a block of statements, which goes to the end. */
export function statementsIn(text: string): Piece[] {
  const found: Piece[] = [];
  for (const node of parsed(text).topNode.getChildren("Statement")) {
    const semicolon = node.lastChild?.name === ";" ? node.lastChild.from : node.to;
    const sql = text.slice(node.from, semicolon).trimEnd();
    if (BLOCK.test(sql)) return [...found, { from: node.from, to: text.length, sql: text.slice(node.from).trimEnd() }];
    if (sql !== "") found.push({ from: node.from, to: node.from + sql.length, sql });
  }
  return found;
}

/** The statement at a position: the one that is there or before it; from the line of a comment, the one that follows. */
export function statementAt(text: string, position: number): Piece | undefined {
  const pieces = statementsIn(text);
  const before = pieces.findLast((each) => each.from <= position);
  const node = parsed(text).resolveInner(position, 1);
  const line = text.lastIndexOf("\n", node.from - 1) + 1;
  const heads = node.name.endsWith("Comment") && text.slice(line, node.from).trim() === "";
  const inside = before !== undefined && position <= before.to;
  const after = pieces.find((each) => each.from > position);
  return (heads && !inside ? after : undefined) ?? before ?? after;
}

/** What is to run: the statements of what is selected, or the one at the cursor. */
export function wanted(text: string, { from, to }: { from: number; to: number }): Piece[] {
  if (from === to) return [statementAt(text, from)].filter((each) => each !== undefined);
  return statementsIn(text.slice(from, to)).map((each) => ({ ...each, from: each.from + from, to: each.to + from }));
}

/** The names of the parameters (`:name`) of a text, in their order. */
export function parametersIn(text: string): string[] {
  const found = new Set<string>();
  parsed(text).iterate({
    enter: ({ name, from, to }) => {
      const word = text.slice(from, to);
      // after a name or a bracket, a colon is the path into a value, or separates a field from its type
      if (name === "SpecialVar" && PARAMETER.test(word) && !/[\w`)\]]/.test(text[from - 1] ?? ""))
        found.add(word.slice(1));
    },
  });
  return [...found];
}

/** Where in a statement Spark has found the mistake, as far as its message says. */
export function mistakeIn(message: string, sql: string): { from: number; to: number } | undefined {
  const [, line, column] = PLACE.exec(message) ?? [];
  if (line === undefined) return undefined;
  const lines = sql.split("\n");
  if (Number(line) > lines.length) return undefined;
  const before = lines.slice(0, Number(line) - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const from = Math.min(before + Number(column), Math.max(0, sql.length - 1));
  return { from, to: from + (WORD.exec(sql.slice(from))?.[0].length ?? 1) };
}

/** The number of the line at a position, from 1. */
export const lineAt = (text: string, position: number) => text.slice(0, position).split("\n").length;

/** Whether it changes only the session in which it runs. */
export const ofSession = (sql: string) => SESSION.test(sql);
