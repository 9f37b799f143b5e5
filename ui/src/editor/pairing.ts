export interface Pair {
  id: number;
  key: string;
  value: string;
}

let last = 0;
export const pair = (key = "", value = ""): Pair => ({ id: ++last, key, value });

export const pairsOf = (map: object | null | undefined): Pair[] =>
  Object.entries(map ?? {}).map(([key, value]) => pair(key, String(value)));

/** A pair without a key is not finished and does not count. */
export const mapOf = (pairs: Pair[]): Record<string, string> =>
  Object.fromEntries(pairs.filter((each) => each.key !== "").map((each) => [each.key, each.value]));

/** `spark.a b`, `A=b` or `a: b`, one on each line. */
export function linesOf(text: string): [string, string][] {
  return text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const parts = /^(?:export\s+)?([^\s=]+?)(?:\s*=\s*|:\s+|\s+)(.*)$/.exec(line);
      return [parts?.[1] ?? line, parts?.[2] ?? ""];
    });
}
