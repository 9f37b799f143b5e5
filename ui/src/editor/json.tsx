import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import {
  bracketMatching,
  defaultHighlightStyle,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type CSSProperties, useEffect, useRef } from "react";

const looks = EditorView.theme({
  "&": { fontSize: "13px", border: "1px solid var(--b-line)", borderRadius: "6px" },
  "&.cm-focused": { outline: "2px solid var(--b-focus)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "20px" },
  ".cm-content, .cm-gutter": { minHeight: "var(--json-height, 418px)" },
  ".cm-content": { caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-gutters": { background: "var(--b-rail)", color: "var(--mantine-color-dimmed)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "var(--b-over)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--b-selected)",
  },
});
const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--b-code-name)" },
  { tag: tags.string, color: "var(--b-code-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--b-code-value)" },
]);

/** A text as JSON. `onChange` is told of what is typed, not of what is set from outside. */
export default function JsonEditor({
  text,
  label,
  readOnly = false,
  height,
  go,
  onChange,
}: {
  text: string;
  label: string;
  readOnly?: boolean;
  height?: number; // pixels, at least
  go?: { to: string }; // selects this key; another object, even with the same key, goes there again
  onChange: (text: string) => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const told = useRef(onChange);
  told.current = onChange;
  const first = useRef(text);
  useEffect(() => {
    if (place.current === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          EditorView.cspNonce.of(nonce),
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          EditorState.readOnly.of(readOnly),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          json(),
          syntaxHighlighting(colours),
          syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          looks,
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (
              update.docChanged &&
              update.transactions.some(
                (each) =>
                  each.isUserEvent("input") ||
                  each.isUserEvent("delete") ||
                  each.isUserEvent("undo") ||
                  each.isUserEvent("redo") ||
                  each.isUserEvent("move"),
              )
            )
              told.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [label, readOnly]);
  useEffect(() => {
    const now = view.current;
    if (now === null || now.state.doc.toString() === text) return;
    now.dispatch({ changes: { from: 0, to: now.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    const now = view.current;
    if (now === null || go === undefined) return;
    const key = JSON.stringify(go.to);
    const at = Math.max(0, now.state.doc.toString().indexOf(key));
    now.dispatch({ selection: { anchor: at, head: at === 0 ? 0 : at + key.length }, scrollIntoView: true });
    now.focus();
  }, [go]);
  const style = height === undefined ? undefined : ({ "--json-height": `${height}px` } as CSSProperties);
  return <div ref={place} style={style} />;
}
