import { pythonLanguage } from "@codemirror/lang-python";
import { highlightCode, tagHighlighter, tags } from "@lezer/highlight";
import { type ReactNode, useMemo } from "react";
import { Scroller } from "../kit/scroller";
import { SPARK_SQL } from "./language";

const TAGS = tagHighlighter([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], class: "tok-word" },
  { tag: [tags.string, tags.special(tags.string)], class: "tok-text" },
  { tag: [tags.number, tags.bool, tags.null, tags.typeName], class: "tok-value" },
  { tag: tags.comment, class: "tok-comment" },
]);
const MAGIC = /^\s*%\w+[^\n]*\n?/;
const MOST = 100_000; // characters that are highlighted

/** Code that is only shown. A magic on its first line is not part of the language. */
export function Highlighted({ code, language, label }: { code: string; language: string; label: string }) {
  const shown = useMemo(() => spans(code, language), [code, language]);
  return (
    <Scroller className="shown-code" label={label}>
      {shown}
    </Scroller>
  );
}

function spans(code: string, language: string): ReactNode {
  const parser =
    language === "python"
      ? pythonLanguage.parser
      : language === "sql" || language === "SQL"
        ? SPARK_SQL.language.parser
        : undefined;
  if (parser === undefined || code.length > MOST) return code;
  const magic = MAGIC.exec(code)?.[0] ?? "";
  const text = code.slice(magic.length);
  const parts: ReactNode[] = [magic];
  const put = (piece: string, classes: string) =>
    parts.push(
      classes ? (
        <span key={parts.length} className={classes}>
          {piece}
        </span>
      ) : (
        piece
      ),
    );
  highlightCode(text, parser.parse(text), TAGS, put, () => parts.push("\n"));
  return parts;
}
