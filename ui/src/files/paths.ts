/** Paths as nodes see them: /Volumes/..., /Workspace/..., and /dbfs/... */
export const TREES = [
  { root: "Volumes", label: "Volumes", what: "Files and data by catalog and schema." },
  { root: "Workspace", label: "Workspace", what: "Notebooks, and the files beside them." },
  { root: "dbfs", label: "DBFS", what: "Files of Spark's default file system." },
] as const;
export type Root = (typeof TREES)[number]["root"];

export interface Entry {
  path: string; // as nodes see it
  name: string;
  directory: boolean;
  size?: number;
  modified?: number; // epoch ms
  notebook?: boolean;
}

/** "/Volumes/a/b" of what was typed or linked; "" if it is in none of the trees. `.` and `..` are resolved. */
export function normal(given: string | undefined): string {
  const parts: string[] = [];
  for (const part of (given ?? "")
    .replace(/^dbfs:\/(?!(Volumes|Workspace)\b)/, "/dbfs/")
    .replace(/^(dbfs|file):/, "")
    .split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return TREES.some((each) => each.root === parts[0]) ? `/${parts.join("/")}` : "";
}

export const partsOf = (path: string) => path.split("/").filter(Boolean);
export const rootOf = (path: string) => partsOf(path)[0] as Root | undefined;
export const nameOf = (path: string) => partsOf(path).at(-1) ?? "";
export const parentOf = (path: string) => {
  const parts = partsOf(path).slice(0, -1);
  return parts.length > 0 ? `/${parts.join("/")}` : "";
};

/** The path that the API of its tree takes. */
export const apiPath = (path: string) => (rootOf(path) === "Volumes" ? path : `/${partsOf(path).slice(1).join("/")}`);

/** A path in a URL: its slashes stay. */
export const inUrl = (path: string) => path.split("/").map(encodeURIComponent).join("/");

/** What a directory holds that can be created in it. */
export function holds(path: string): "schema" | "volume" | "directory" | "nothing" {
  const parts = partsOf(path);
  if (parts[0] !== "Volumes") return parts.length > 0 ? "directory" : "nothing";
  return (["nothing", "schema", "volume"] as const)[parts.length - 1] ?? "directory";
}

/** Whether files can be put there. */
export const takesFiles = (path: string) => holds(path) === "directory";

/** Directories first, then by name. */
export const inListOrder = (entries: Entry[]) =>
  [...entries].sort(
    (one, other) =>
      Number(other.directory) - Number(one.directory) ||
      one.name.localeCompare(other.name, undefined, { numeric: true }),
  );

export const crumbsOf = (path: string) =>
  partsOf(path).map((name, at, parts) => ({ name, path: `/${parts.slice(0, at + 1).join("/")}` }));

const endingOf = (path: string) => /\.([a-z0-9]+)$/.exec(nameOf(path).toLowerCase())?.[1] ?? "";
const IMAGES: Record<string, string> = { png: "png", jpg: "jpeg", jpeg: "jpeg", gif: "gif", webp: "webp", bmp: "bmp" };
const BINARY = new Set("parquet orc avro zip gz bz2 xz zst jar whl tar tgz pdf xlsx docx pkl pt so exe".split(" "));

export type Kind = "table" | "json" | "image" | "text" | "binary";

/** How a file is shown. HTML and SVG are text: nothing in a file ever runs as the reader. */
export function kindOf(path: string): Kind {
  const ending = endingOf(path);
  if (ending === "csv" || ending === "tsv") return "table";
  if (ending === "json") return "json";
  if (ending in IMAGES) return "image";
  return BINARY.has(ending) ? "binary" : "text";
}

export const imageType = (path: string) => `image/${IMAGES[endingOf(path)]}`;

/** The path as Spark takes it. */
export const sparkPath = (path: string) => (rootOf(path) === "dbfs" ? `dbfs:${apiPath(path)}` : path);

/** A line of Python that reads it on a cluster. */
export function sparkCode({ path, directory }: Pick<Entry, "path" | "directory">): string {
  const quoted = JSON.stringify(sparkPath(path));
  if (directory) return `spark.read.load(${quoted})`;
  switch (endingOf(path)) {
    case "csv":
      return `spark.read.csv(${quoted}, header=True, inferSchema=True)`;
    case "tsv":
      return `spark.read.csv(${quoted}, sep="\\t", header=True, inferSchema=True)`;
    case "json":
    case "jsonl":
    case "ndjson":
      return `spark.read.json(${quoted})`;
    case "parquet":
    case "orc":
      return `spark.read.${endingOf(path)}(${quoted})`;
    case "txt":
    case "log":
    case "md":
      return `spark.read.text(${quoted})`;
    default:
      return `open(${JSON.stringify(path)}, "rb").read()`;
  }
}
