import type { Library } from "./calls";
import { read } from "./spec";

export interface Kind {
  kind: keyof Library & string;
  label: string;
  path: string[];
  example: string;
  repo?: string;
  start?: string; // it is a path, which begins so
}

export const KINDS: Kind[] = [
  { kind: "pypi", label: "PyPI", path: ["pypi", "package"], example: "simplejson==3.19.2", repo: "Index URL" },
  {
    kind: "maven",
    label: "Maven",
    path: ["maven", "coordinates"],
    example: "com.acme:lib:1.0",
    repo: "Repository URL",
  },
  {
    kind: "whl",
    label: "Wheel",
    path: ["whl"],
    example: "/Volumes/main/default/lib/ours-1.0-py3-none-any.whl",
    start: "/Volumes/",
  },
  { kind: "jar", label: "Jar", path: ["jar"], example: "dbfs:/jars/ours.jar", start: "dbfs:/" },
  {
    kind: "requirements",
    label: "Requirements",
    path: ["requirements"],
    example: "/Workspace/Shared/requirements.txt",
    start: "/Workspace/",
  },
  { kind: "cran", label: "CRAN", path: ["cran", "package"], example: "forecast", repo: "Repository URL" },
];
export const kindOf = (library: Library) => KINDS.find((each) => library[each.kind] != null) ?? (KINDS[0] as Kind);

/** A library's name, in one line. */
export const libraryName = (library: Library) => {
  const { label, path } = kindOf(library);
  return `${label} ${String(read(library, path) ?? "")}`;
};

/** Without rows in which nothing was typed. */
export const filled = (libraries: Library[]) =>
  libraries.filter((each) => String(read(each, kindOf(each).path) ?? "") !== "");
