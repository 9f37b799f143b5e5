import { createContext, type ReactNode, useContext, useState } from "react";
import { Icon } from "../kit/icons";
import { RestartBadge, restarts } from "./fields";
import { errorsAt, useEditor } from "./state";

/** Which parts are open, by their titles: kept while the JSON text is shown instead of the form. */
export const KeptOpen = createContext(new Map<string, boolean>());

/** A part of the form. Closed, it shows what it holds, and whether something in it is wrong. */
export function Section({
  title,
  holds,
  fields,
  children,
  closed = false,
}: {
  title: string;
  holds?: string;
  fields: string[];
  children: ReactNode;
  closed?: boolean;
}) {
  const editor = useEditor();
  const kept = useContext(KeptOpen);
  const [open, setOpen] = useState(kept.get(title) ?? !closed);
  const turn = () => {
    kept.set(title, !open);
    setOpen(!open);
  };
  const wrong = fields.reduce((sum, field) => sum + errorsAt(editor.errors, field).length, 0);
  const id = `part-${title.toLowerCase().replace(/\W+/g, "-")}`;
  if (!closed)
    return (
      <section className="part" aria-labelledby={id}>
        <h2 id={id}>{title}</h2>
        <div className="part-body">{children}</div>
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
          {!open && <span className="holds">{holds}</span>}
          {!open && fields.some((field) => restarts(editor, [field])) && <RestartBadge />}
          {wrong > 0 && (
            <span className="wrong">
              {wrong} {wrong === 1 ? "mistake" : "mistakes"}
            </span>
          )}
        </button>
      </h2>
      <div className="part-body" id={`${id}-body`} hidden={!open}>
        {children}
      </div>
    </section>
  );
}
