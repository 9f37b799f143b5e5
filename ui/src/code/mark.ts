import { type EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView } from "@codemirror/view";

/** A part of a text. */
export interface Span {
  from: number;
  to: number;
}

const LOOK = Decoration.mark({ class: "cm-mistake" });

/** Marks where a mistake is; without a span, there is none. */
export const mark = StateEffect.define<Span | undefined>();

/** The mark moves with the text around it, and goes when the text that it marks changes. */
export const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(now, { changes, effects, newDoc }) {
    const { value, from: start, to: stop } = now.iter();
    let next = value === null || changes.touchesRange(start, stop) ? Decoration.none : now.map(changes);
    for (const effect of effects)
      if (effect.is(mark)) {
        const { from, to } = effect.value ?? { from: 0, to: 0 };
        const end = Math.min(to, newDoc.length);
        next = from < end ? Decoration.set(LOOK.range(from, end)) : Decoration.none;
      }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function marked(state: EditorState): Span | undefined {
  const { value, from, to } = state.field(marks).iter();
  return value === null ? undefined : { from, to };
}
