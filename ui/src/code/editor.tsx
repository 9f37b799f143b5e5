import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionStatus,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type RefObject, useEffect, useImperativeHandle, useRef } from "react";
import type { CatalogNames } from "./catalog";
import { type CodeLanguage, languageOf } from "./language";
import { mark, marked, marks, type Span } from "./mark";

const looks = EditorView.theme({
  "&": { fontSize: "13px", border: "1px solid var(--b-line)", borderRadius: "6px", background: "var(--b-rail)" },
  "&.cm-focused": { outline: "2px solid var(--b-focus)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "20px", maxHeight: "50vh" },
  ".cm-content": { caretColor: "var(--mantine-color-text)", padding: "6px 0" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-placeholder": { color: "var(--mantine-color-dimmed)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--b-selected)",
  },
  ".cm-mistake": { textDecoration: "underline wavy var(--mantine-color-error)", textUnderlineOffset: "3px" },
  ".cm-tooltip": {
    background: "var(--mantine-color-body)",
    color: "var(--mantine-color-text)",
    border: "1px solid var(--b-line)",
    borderRadius: "6px",
  },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    background: "var(--mantine-primary-color-filled)",
    color: "var(--b-on-accent)",
  },
});
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--b-code-name)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--b-code-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.typeName], color: "var(--b-code-value)" },
  { tag: tags.comment, color: "var(--mantine-color-dimmed)", fontStyle: "italic" },
]);

/** What the keys do that are not for the text. */
export interface Keys {
  run: () => void;
  runAndNext: () => void;
  leave: () => void;
  /** Shows an older or newer command in place of the text; false: there is none, or the text is the user's own. */
  recall: (older: boolean) => boolean;
}

/** What the page may ask of the code. */
export interface Control {
  selection: () => Span;
  mark: (span: Span | undefined) => void; // where a mistake is
  goToMark: () => void;
  focus: () => void;
}

interface Props {
  code: string;
  language: CodeLanguage;
  label: string;
  hint: string;
  readOnly?: boolean;
  names: CatalogNames;
  /** The names that the other cells give. */
  defined: () => string[];
  keys: Keys;
  onChange: (code: string) => void;
  control?: RefObject<Control | null>;
}

/** The code of a cell, or of the SQL editor. */
export function CodeEditor({
  code,
  language,
  label,
  hint,
  readOnly = false,
  names,
  defined,
  keys,
  onChange,
  control,
}: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef({ keys, onChange, defined });
  latest.current = { keys, onChange, defined };
  const first = useRef({ code, language, label, hint, names, readOnly });
  const parts = useRef({
    language: new Compartment(),
    label: new Compartment(),
    hint: new Compartment(),
    reading: new Compartment(),
  });

  useEffect(() => {
    if (place.current === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
    const given = first.current;
    const at = parts.current;
    const done = (act: (keys: Keys) => void) => (now: EditorView) => {
      closeCompletion(now); // also one that is still on its way: it would be drawn over the result
      act(latest.current.keys);
      return true;
    };
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: given.code,
        extensions: [
          EditorView.cspNonce.of(nonce),
          Prec.highest(keymap.of([{ key: "Escape", run: (now) => leaveOrClose(now, latest.current.keys) }])),
          autocompletion({ icons: false, activateOnTypingDelay: 150 }),
          Prec.high(
            keymap.of([
              { key: "Shift-Enter", run: done((all) => all.runAndNext()) },
              { key: "Mod-Enter", run: done((all) => all.run()) },
              { key: "Tab", run: acceptCompletion },
              { key: "ArrowUp", run: (now) => atEdge(now, true) && latest.current.keys.recall(true) },
              { key: "ArrowDown", run: (now) => atEdge(now, false) && latest.current.keys.recall(false) },
            ]),
          ),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of("    "),
          bracketMatching(),
          closeBrackets(),
          EditorView.lineWrapping,
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
          at.language.of(languageOf(given.language, given.names, () => latest.current.defined())),
          at.hint.of(placeholder(given.hint)),
          at.label.of(EditorView.contentAttributes.of({ "aria-label": given.label })),
          at.reading.of(reading(given.readOnly)),
          syntaxHighlighting(colours),
          looks,
          marks,
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    const at = parts.current;
    view.current?.dispatch({
      effects: [
        at.language.reconfigure(languageOf(language, names, () => latest.current.defined())),
        at.hint.reconfigure(placeholder(hint)),
        at.label.reconfigure(EditorView.contentAttributes.of({ "aria-label": label })),
        at.reading.reconfigure(reading(readOnly)),
      ],
    });
  }, [language, names, hint, label, readOnly]);
  useEffect(() => {
    const now = view.current;
    const old = now?.state.doc.toString() ?? code;
    if (now === null || old === code) return;
    // A beginning that is taken away, such as a magic that has become the cell's language, leaves the cursor where it is.
    if (code !== "" && old.endsWith(code)) {
      now.dispatch({ changes: { from: 0, to: old.length - code.length } });
      return;
    }
    now.dispatch({
      changes: { from: 0, to: now.state.doc.length, insert: code },
      selection: { anchor: code.length },
    });
  }, [code]);
  useImperativeHandle(control, () => ({
    selection: () => view.current?.state.selection.main ?? { from: 0, to: 0 },
    mark: (span) => view.current?.dispatch({ effects: mark.of(span) }),
    goToMark: () => {
      const now = view.current;
      const span = now && marked(now.state);
      if (span) now.dispatch({ selection: { anchor: span.from, head: span.to }, scrollIntoView: true });
      now?.focus();
    },
    focus: () => view.current?.focus(),
  }));
  return <div ref={place} className="codefield" />;
}

/** Text that can be selected and searched, and not be changed. */
const reading = (readOnly: boolean) =>
  readOnly ? [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-readonly": "true" })] : [];

/** Closes the list of completions; without one in sight it leaves the code. */
function leaveOrClose(view: EditorView, keys: Keys): boolean {
  const open = completionStatus(view.state) === "active";
  closeCompletion(view);
  if (!open) keys.leave();
  return true;
}

/** Whether the cursor, with nothing selected, is in the first or last line: the key would lead out of the text. */
function atEdge(view: EditorView, top: boolean): boolean {
  const { main } = view.state.selection;
  const line = view.state.doc.lineAt(main.head).number;
  return main.empty && line === (top ? 1 : view.state.doc.lines);
}
