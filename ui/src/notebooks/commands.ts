import type { Language } from "../code/commands";
import { commandText, type SourceCell } from "./source";

const RUN = /^(\s*%run[ \t]+)(["']?)([^\s"'$][^\n"']*?)\2((?:[ \t]+\$[^\n]*)?)[ \t]*(?=\n|$)/;

/** What a cell of the notebook at `path` runs; undefined: nothing. */
export function commandOf(
  cell: SourceCell,
  language: Language,
  path: string,
): { language: Language; command: string } | undefined {
  if (cell.code.trim() === "" || whyNot(cell) !== undefined || cell.kind === "markdown") return undefined;
  if (cell.kind === "shell") return { language: "python", command: commandText(cell, language) };
  return { language: cell.kind as Language, command: absoluteRun(cell.code, path) };
}

/** Why cells of this kind do not run; undefined: they do. */
export function whyNot({ kind }: Pick<SourceCell, "kind">): string | undefined {
  if (kind === "r") return "R cells do not run here. Run R as a program: %sh Rscript FILE, on a node that has R.";
  if (kind === "scala")
    return "Scala cells do not run here. Run compiled Scala as a JAR task of a job, or through spark._jvm from Python.";
  return undefined;
}

/** `%run` with the whole path: a session of the API has no path of its own. */
export function absoluteRun(code: string, path: string): string {
  return code.replace(RUN, (line, run: string, quote: string, given: string, args: string) =>
    given.startsWith("/") ? line : `${run}${quote}${joined(path, given.trimEnd())}${quote}${args}`,
  );
}

function joined(path: string, given: string): string {
  const parts = path.split("/").slice(1, -1);
  for (const part of given.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "." && part !== "") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
