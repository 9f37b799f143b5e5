import type { Language } from "../../code/commands";
import type { Cell } from "./cells";

const NAME = String.raw`[A-Za-z_]\w*`;
const PYTHON = [
  new RegExp(String.raw`^\s*(?:async\s+)?def\s+(${NAME})`),
  new RegExp(String.raw`^\s*class\s+(${NAME})`),
  new RegExp(String.raw`^((?:${NAME}\s*,\s*)*${NAME})\s*(?::[^=]*)?=(?!=)`),
  new RegExp(String.raw`^for\s+((?:${NAME}\s*,\s*)*${NAME})\s+in\b`),
  new RegExp(String.raw`^with\b.*\bas\s+(${NAME})`),
];
const IMPORT = /^\s*(?:from\s+\S+\s+)?import\s+(.+)$/;
const VIEW = /\.create(?:OrReplace)?(?:Global)?TempView\(\s*["'](\w+)["']/g;
const MADE =
  /\bcreate\s+(?:or\s+replace\s+)?(?:(?:global\s+)?temp(?:orary)?\s+)?(?:view|table)\s+(?:if\s+not\s+exists\s+)?([\w.`]+)/gi;

function definedInPython(code: string): string[] {
  return code.split("\n").flatMap((line) => {
    const imported = IMPORT.exec(line)?.[1];
    if (imported !== undefined)
      return imported
        .replace(/[()]|#.*/g, "")
        .split(",")
        .map((each) => (/\bas\s+(\w+)/.exec(each)?.[1] ?? each.trim().split(".")[0] ?? "").trim());
    return PYTHON.flatMap((rule) => rule.exec(line)?.[1]?.split(",") ?? []).map((each) => each.trim());
  });
}

/**
 * The names that the cells give in one language: variables, functions, classes and imports of Python; views and tables of SQL, those too
 * that Python code makes. Read from the text: the API has no call that asks a session.
 */
export function definedNames(cells: readonly Pick<Cell, "language" | "code">[], language: Language): string[] {
  const found = cells.flatMap(({ language: own, code }) => {
    if (language === "python") return own === "python" ? definedInPython(code) : [];
    return [...code.matchAll(VIEW), ...code.matchAll(MADE)].map((each) => each[1] ?? "");
  });
  return [...new Set(found)].filter((each) => each !== "" && each !== "*");
}
