import type { Language } from "../code/commands";

/** What a cell holds. Magics that name no language (`%run`, `%pip`, `%fs`) are code of the notebook's language. */
export type Kind = Language | "markdown" | "shell";

/** A cell as people see it. */
export interface Content {
  kind: Kind;
  code: string;
  title: string;
}

/** Where a cell stood in the source: what is around it differs at the edges. */
type Role = "only" | "first" | "middle" | "last";

/** How a cell was in the source. */
interface Original {
  content: Content;
  raw: string; // all between two separators
  separator: string; // the line before it
  role: Role;
  opening: string; // the magic before the code
  numbered: string; // what its title begins with
}

export interface SourceCell extends Content {
  original?: Original;
}

/** A notebook in Databricks' source format. */
export interface Source {
  language: Language;
  header: string; // the first line, with its end
  eol: string;
  cells: SourceCell[];
}

const COMMENTS: Record<Language, string> = { python: "#", sql: "--", scala: "//", r: "#" };
const KINDS: Record<string, Kind> = {
  python: "python",
  sql: "sql",
  scala: "scala",
  r: "r",
  md: "markdown",
  "md-sandbox": "markdown",
  sh: "shell",
};
const MAGICS: Record<Kind, string> = {
  python: "%python",
  sql: "%sql",
  scala: "%scala",
  r: "%r",
  markdown: "%md",
  shell: "%sh",
};
const OPENING = /^%(python|sql|scala|r|md-sandbox|md|sh)(?:[ \t]*\n|[ \t]+(?=\S)|[ \t]*$)/;
const LINE = /[^\n]*\n|[^\n]+$/g;

/** The cells of a notebook. `printed` gives back what was read, as long as nothing is changed. */
export function parsed(text: string, language: Language): Source {
  const comment = COMMENTS[language];
  const lines = text.match(LINE) ?? [];
  const header = lines[0]?.trimEnd() === `${comment} Databricks notebook source` ? (lines.shift() ?? "") : "";
  const parts: { separator: string; raw: string }[] = [{ separator: "", raw: "" }];
  for (const line of lines) {
    const last = parts.at(-1);
    if (line.trimEnd() === `${comment} COMMAND ----------`) parts.push({ separator: line, raw: "" });
    else if (last) last.raw += line;
  }
  const cells = parts.map(({ separator, raw }, at): SourceCell => {
    const { opening, numbered, ...content } = contentOf(raw, language);
    return {
      ...content,
      original: { content, raw, separator, role: roleOf(at, parts.length), opening, numbered },
    };
  });
  return { language, header, eol: /\r\n/.test(header || (lines[0] ?? "")) ? "\r\n" : "\n", cells };
}

/** The source of a notebook. */
export function printed({ language, header, eol, cells }: Source): string {
  const comment = COMMENTS[language];
  const line = (text: string) => text + eol;
  let text = header || line(`${comment} Databricks notebook source`);
  if (!text.endsWith("\n")) text = line(text);
  cells.forEach((cell, at) => {
    const role = roleOf(at, cells.length);
    const { original } = cell;
    const first = role === "first" || role === "only";
    const raw = original?.role === role && isSame(cell, original.content) ? original.raw : undefined;
    if (!first) {
      const separator = original?.separator ?? "";
      if (!text.endsWith("\n")) text += eol;
      text +=
        raw === "" || separator.endsWith("\n")
          ? separator || line(`${comment} COMMAND ----------`)
          : line(`${comment} COMMAND ----------`);
    }
    if (raw !== undefined) {
      text += raw;
      return;
    }
    const { lead, trail } = around(cell, role, eol);
    text += lead + bodyOf(cell, language).replaceAll("\n", eol) + trail;
  });
  return text;
}

/** The empty lines around an edited cell: as they were, if it stands where it stood. */
function around({ original }: SourceCell, role: Role, eol: string): { lead: string; trail: string } {
  if (original?.role === role && original.raw.trim() !== "") {
    const { raw } = original;
    return { lead: /^(?:[ \t]*\r?\n)*/.exec(raw)?.[0] ?? "", trail: /(?:\r?\n)*$/.exec(raw)?.[0] ?? "" };
  }
  const [first, last] = [role === "first" || role === "only", role === "last" || role === "only"];
  return { lead: first ? "" : eol, trail: last ? eol : eol + eol };
}

const roleOf = (at: number, count: number): Role =>
  count === 1 ? "only" : at === 0 ? "first" : at === count - 1 ? "last" : "middle";

const isSame = (one: Content, other: Content) =>
  one.kind === other.kind && one.code === other.code && one.title === other.title;

function contentOf(raw: string, language: Language): Content & { opening: string; numbered: string } {
  const comment = COMMENTS[language];
  const mark = `${comment} MAGIC`;
  const lines = raw
    .replaceAll("\r\n", "\n")
    .replaceAll("\r", "\n")
    .replace(/^(?:[ \t]*\n)+/, "")
    .replace(/\n+$/, "")
    .split("\n");
  let title = "";
  let numbered = "1,"; // of a new title: it is shown, as Databricks has it
  const titled = `${comment} DBTITLE `;
  if (lines[0]?.startsWith(titled)) {
    const [, number = "", rest = ""] = /^(\d+,)?(.*)$/.exec(lines[0].slice(titled.length)) ?? [];
    lines.shift();
    title = rest.trim();
    numbered = number || "";
  }
  const isMarked = (line: string) => line === mark || line.startsWith(`${mark} `) || line.startsWith(`${mark}\t`);
  const begins = lines.findIndex((each) => each.trim() !== "");
  const magic = begins >= 0 && isMarked(lines[begins] ?? "");
  const text = magic
    ? lines
        .slice(begins)
        .map((each) => (isMarked(each) ? each.slice(mark.length).replace(/^ /, "") : each))
        .join("\n")
    : lines.join("\n");
  return { ...opened(text, language), title, numbered };
}

/** A text without the magic that names its language. */
function opened(text: string, language: Language): { kind: Kind; code: string; opening: string } {
  const [opening = "", magic = ""] = OPENING.exec(text) ?? [];
  const kind = KINDS[magic];
  // Options of a shell (`%sh -e`) stay where they are.
  if (kind === undefined || (kind === "shell" && !/^%sh[ \t]*(\n|$)/.test(text)))
    return { kind: language, code: text, opening: "" };
  return { kind, code: text.slice(opening.length), opening };
}

/** A cell's text with its magic. */
export function commandText(cell: SourceCell, language: Language): string {
  const { original } = cell;
  const kept = original !== undefined && original.content.kind === cell.kind;
  const opening = kept ? original.opening : cell.kind === language ? "" : `${MAGICS[cell.kind]}\n`;
  return (opening !== "" && !/\s$/.test(opening) && cell.code !== "" ? `${opening}\n` : opening) + cell.code;
}

function bodyOf(cell: SourceCell, language: Language): string {
  const comment = COMMENTS[language];
  const text = commandText(cell, language);
  const marked = text.trimStart().startsWith("%")
    ? text
        .split("\n")
        .map((each) => (each === "" ? `${comment} MAGIC` : `${comment} MAGIC ${each}`))
        .join("\n")
    : text;
  const number = cell.original?.numbered ?? "1,";
  return cell.title === "" ? marked : `${comment} DBTITLE ${number}${cell.title}\n${marked}`;
}

/** What a cell becomes when a magic is typed at its beginning; undefined: nothing else. */
export function retyped(code: string, kind: Kind, language: Language): Pick<Content, "kind" | "code"> | undefined {
  if (!/^%(?:(?:python|sql|scala|r|md)[ \t\n]|sh[ \t]*\n)/.test(code)) return undefined;
  const found = opened(code.replace(/^(%\w+)[ \t]+$/, "$1\n"), language);
  return found.opening === "" || (found.kind === kind && found.code === code)
    ? undefined
    : { kind: found.kind, code: found.code };
}
