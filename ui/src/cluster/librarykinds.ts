import type { components } from "../api/schema";

export type Library = components["schemas"]["Library"];

export const SOURCES = ["PyPI", "Maven", "Wheel", "JAR", "Requirements file", "CRAN"] as const;
export type Source = (typeof SOURCES)[number];

export const HINTS: Record<Source, string> = {
  PyPI: "requests==2.32.3",
  Maven: "org.jsoup:jsoup:1.18.1",
  Wheel: "/Volumes/main/default/libraries/mine-1.0-py3-none-any.whl",
  JAR: "dbfs:/libraries/mine.jar",
  "Requirements file": "/Workspace/Shared/requirements.txt",
  CRAN: "jsonlite",
};

/** How files of a source end. */
export const ENDS: Partial<Record<Source, string>> = { Wheel: ".whl", JAR: ".jar", "Requirements file": ".txt" };

/** Where a library comes from, as far as its name says. */
export function sourceOf(text: string): Source {
  const typed = text.trim();
  const file = (Object.keys(ENDS) as Source[]).find((each) => typed.endsWith(ENDS[each] ?? ""));
  if (file !== undefined) return file;
  return /^[\w.-]+:[\w.-]+:[\w.-]+$/.test(typed) ? "Maven" : "PyPI";
}

export function made(source: Source, text: string, repo: string): Library {
  const from = repo ? { repo } : {};
  if (source === "PyPI") return { pypi: { package: text, ...from } };
  if (source === "Maven") return { maven: { coordinates: text, ...from } };
  if (source === "CRAN") return { cran: { package: text, ...from } };
  if (source === "Wheel") return { whl: text };
  return source === "JAR" ? { jar: text } : { requirements: text };
}

/** The kind of a library, and what names it. */
export function named(library: Library): [Source | "Egg", string, string] {
  if (library.pypi) return ["PyPI", library.pypi.package, library.pypi.repo ?? ""];
  if (library.maven) return ["Maven", library.maven.coordinates, library.maven.repo ?? ""];
  if (library.cran) return ["CRAN", library.cran.package, library.cran.repo ?? ""];
  if (library.whl) return ["Wheel", library.whl, ""];
  if (library.jar) return ["JAR", library.jar, ""];
  return library.requirements ? ["Requirements file", library.requirements, ""] : ["Egg", library.egg ?? "", ""];
}
