import type { Widget } from "../code/commands";

/** The widgets of a notebook, as far as its session has told of them. */
export interface WidgetState {
  session: string; // which has told of them
  list: Widget[];
  chosen: Record<string, string>; // what a person has chosen: commands get these values
}

export const NO_WIDGETS: WidgetState = { session: "", list: [], chosen: {} };

export const shownValue = (state: WidgetState, widget: Widget) => state.chosen[widget.name] ?? widget.value ?? "";

/** Whether a choice has not reached the session yet. */
export const isPending = (state: WidgetState) =>
  state.list.some((each) => shownValue(state, each) !== (each.value ?? ""));

export const chose = (state: WidgetState, name: string, value: string): WidgetState => ({
  ...state,
  chosen: { ...state.chosen, [name]: value },
});

/**
 * The widgets after a session has told of them. `sent`: the values that a command got which has finished.
 *
 * A choice is forgotten with its widget, and when code has given the widget another value. It outlives its session: the widget of the
 * next one begins with it. `told` is undefined as long as the session's process has made none.
 */
export function heard(
  state: WidgetState,
  told: Widget[] | undefined,
  session: string,
  sent: Record<string, string> = {},
): WidgetState {
  const list = told ?? [];
  const before = state.session === session ? state.list : [];
  const has = (widgets: Widget[], name: string) => widgets.find((each) => each.name === name);
  const kept = Object.entries(state.chosen).filter(([name, value]) => {
    const widget = has(list, name);
    if (widget === undefined) return told === undefined || has(before, name) === undefined;
    return sent[name] !== value || (widget.value ?? "") === value;
  });
  return { session, list, chosen: Object.fromEntries(kept) };
}
