import { type MouseEvent, useEffect, useState } from "react";
import { count } from "../lib/sizes";
import { partsOf } from "./form";
import { idOfPart, mistakesIn, type Part } from "./parts";
import { useEditor } from "./state";

const READ_PX = 140; // below the window's top: what has passed that line is what one reads

/** The part that one reads now. The last one counts at the end, however short it is. */
function useRead(parts: Part[]): string {
  const titles = parts.map((each) => each.title).join("\n");
  const [now, setNow] = useState(parts[0]?.title ?? "");
  useEffect(() => {
    const scroller = document.getElementById("main");
    const look = () => {
      const all = titles.split("\n");
      const end =
        scroller !== null &&
        scroller.scrollTop > 0 &&
        scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2;
      const passed = all.filter((title) => {
        const head = document.getElementById(idOfPart(title));
        return head !== null && head.getBoundingClientRect().top < READ_PX;
      });
      setNow((end ? all.at(-1) : passed.at(-1)) ?? all[0] ?? "");
    };
    look();
    scroller?.addEventListener("scroll", look, { passive: true });
    return () => scroller?.removeEventListener("scroll", look);
  }, [titles]);
  return now;
}

/** The parts of the form, beside it where the window is wide: where one is, where the mistakes are, and ways there. */
export function SectionList() {
  const editor = useEditor();
  const parts = partsOf(editor);
  const now = useRead(parts);
  const go = (event: MouseEvent, part: Part) => {
    event.preventDefault(); // the address stays that of the form
    const head = document.getElementById(idOfPart(part.title));
    if (head?.getAttribute("aria-expanded") === "false") head.click();
    requestAnimationFrame(() => {
      head?.scrollIntoView({ block: "start" });
      head?.focus({ preventScroll: true });
    });
  };
  return (
    <nav className="section-list" aria-label="Sections of the form">
      <ul>
        {parts.map((part) => {
          const wrong = mistakesIn(editor, part);
          return (
            <li key={part.title}>
              <a
                href={`#${idOfPart(part.title)}`}
                aria-current={part.title === now ? "location" : undefined}
                onClick={(event) => go(event, part)}
              >
                {part.title}
                {wrong > 0 && <span className="wrong">{count(wrong, "mistake")}</span>}
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}
