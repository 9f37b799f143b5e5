import { createContext, useContext, useState } from "react";
import { Icon } from "../kit/icons";
import { count } from "../lib/sizes";
import { RestartBadge, restarts } from "./fields";
import { idOfPart, mistakesIn, type Part } from "./parts";
import { useEditor } from "./state";

/** Which parts are open, by their titles: kept while the JSON text is shown instead of the form. */
export const KeptOpen = createContext(new Map<string, boolean>());

/** A part of the form. Closed, it shows what it holds, and whether something in it is wrong. */
export function Section({ part }: { part: Part }) {
  const { title, holds, Fields } = part;
  const editor = useEditor();
  const kept = useContext(KeptOpen);
  const [open, setOpen] = useState(kept.get(title) ?? holds === undefined);
  const turn = () => {
    kept.set(title, !open);
    setOpen(!open);
  };
  const wrong = mistakesIn(editor, part);
  const id = idOfPart(title);
  if (holds === undefined)
    return (
      <section className="part" aria-labelledby={id}>
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        <div className="part-body">
          <Fields />
        </div>
      </section>
    );
  return (
    <section className="part" aria-labelledby={id}>
      <h2>
        <button
          type="button"
          id={id}
          className="part-head"
          aria-expanded={open}
          aria-controls={`${id}-body`}
          onClick={turn}
        >
          <Icon name={open ? "down" : "next"} size={14} />
          <span>{title}</span>
          {!open && <span className="holds">{holds(editor)}</span>}
          {!open && part.fields(editor).some((field) => restarts(editor, [field])) && <RestartBadge />}
          {wrong > 0 && <span className="wrong">{count(wrong, "mistake")}</span>}
        </button>
      </h2>
      <div className="part-body" id={`${id}-body`} hidden={!open}>
        <Fields />
      </div>
    </section>
  );
}
