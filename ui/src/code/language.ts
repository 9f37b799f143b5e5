import {
  type Completion,
  type CompletionContext,
  type CompletionSource,
  completeAnyWord,
  completeFromList,
  ifNotIn,
} from "@codemirror/autocomplete";
import { python, pythonLanguage } from "@codemirror/lang-python";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { syntaxTree } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import type { CatalogNames } from "./catalog";
import type { Language } from "./commands";
import { FUNCTIONS, GLOBALS, METHODS, TYPES, WORDS } from "./functions";
import { quoted, typedName } from "./sqlnames";

/** What the editor shows: a language of commands, or text without a grammar. */
export type CodeLanguage = Language | "text";

export const SPARK_SQL = SQLDialect.define({
  keywords: WORDS,
  types: TYPES,
  identifierQuotes: "`",
  backslashEscapes: true,
  doubleQuotedStrings: true,
  specialVar: "?:", // parameters
});

const NO_CODE = ["String", "Comment", "LineComment", "BlockComment"];
const completions = (names: string[], type: string): Completion[] => names.map((label) => ({ label, type }));
const SPARK = completions([...new Set([...FUNCTIONS, ...METHODS])], "function");
const SPARK_NAMES = [...completions(GLOBALS, "variable"), ...SPARK];
const TYPE_OF = { catalog: "namespace", schema: "namespace", table: "class", column: "property" } as const;

/** After a dot, what DataFrames and functions have; else Spark's names. The language's own source has keywords and local names. */
function sparkInPython(context: CompletionContext) {
  const word = context.matchBefore(/[\w.]*/);
  if (word === null || (word.from === word.to && !context.explicit)) return null;
  const dot = word.text.lastIndexOf(".");
  return { from: word.from + dot + 1, options: dot >= 0 ? SPARK : SPARK_NAMES, validFor: /^\w*$/ };
}

/** Names of the catalog, by what is before the dot and which tables the statement has. */
const namesIn =
  (names: CatalogNames): CompletionSource =>
  async (context) => {
    const before = context.state.sliceDoc(0, context.pos);
    const { path, from } = typedName(before);
    if (path.length === 0 && from === context.pos && !context.explicit) return null;
    const found = await names.after(path, statementAround(context));
    if (context.aborted || found.length === 0) return null;
    const options = found.map(({ name, kind, detail = kind }) => ({
      label: name,
      apply: quoted(name),
      type: TYPE_OF[kind],
      detail,
      boost: kind === "column" ? 2 : 1,
    }));
    return { from, options, validFor: /^[\w$`]*$/ };
  };

/** The statement that is being typed: others of the same text have their own tables. */
function statementAround({ state, pos }: CompletionContext): string {
  let node = syntaxTree(state).resolveInner(pos, -1);
  while (node.parent !== null && node.name !== "Statement") node = node.parent;
  return state.sliceDoc(node.from, node.to);
}

const words: CompletionSource = (context) => completeAnyWord(context);

/** The grammar of a language, and what completes it. `defined`: the names that other cells give. */
export function languageOf(language: CodeLanguage, names: CatalogNames, defined: () => string[]): Extension {
  const session: CompletionSource = (context) =>
    completeFromList(completions(defined(), language === "sql" ? "class" : "variable"))(context);
  if (language === "python")
    return [
      python(),
      pythonLanguage.data.of({ autocomplete: ifNotIn(NO_CODE, sparkInPython) }),
      pythonLanguage.data.of({ autocomplete: ifNotIn(NO_CODE, words) }),
      pythonLanguage.data.of({ autocomplete: ifNotIn(NO_CODE, session) }),
    ];
  if (language === "sql") {
    const grammar = sql({ dialect: SPARK_SQL, upperCaseKeywords: true });
    const functions = completeFromList(completions(FUNCTIONS, "function"));
    return [
      grammar,
      SPARK_SQL.language.data.of({ autocomplete: ifNotIn(NO_CODE, functions) }),
      SPARK_SQL.language.data.of({ autocomplete: ifNotIn(NO_CODE, namesIn(names)) }),
      SPARK_SQL.language.data.of({ autocomplete: ifNotIn(NO_CODE, session) }),
    ];
  }
  return [];
}
