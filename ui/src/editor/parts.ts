import type { ComponentType } from "react";
import { type Editor, errorsAt } from "./state";

/** A part of the form. */
export interface Part {
  title: string;
  fields: (editor: Editor) => string[];
  holds?: (editor: Editor) => string; // what it says while it is closed, as it is at first; undefined: it is always open
  Fields: ComponentType;
}

export const idOfPart = (title: string) => `part-${title.toLowerCase().replace(/\W+/g, "-")}`;

/** How many mistakes are in a part. */
export const mistakesIn = (editor: Editor, part: Part) =>
  part.fields(editor).reduce((sum, field) => sum + errorsAt(editor.errors, field).length, 0);
