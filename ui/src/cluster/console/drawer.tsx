import { ActionIcon, Tooltip } from "@mantine/core";
import { type KeyboardEvent, lazy, type PointerEvent, Suspense, useEffect, useRef } from "react";
import type { Cluster } from "../../api/client";
import type { May } from "../../clusters/rights";
import { Icon } from "../../kit/icons";
import { later } from "../../kit/later";
import { Waiting } from "../../kit/waiting";
import { useKept } from "../../lib/kept";

const Console = lazy(later(async () => ({ default: (await import("./console")).Console })));
const [LOWEST, USUAL, STEP] = [140, 320, 24]; // pixels
const highest = () => Math.round(window.innerHeight * 0.8);
const bounded = (height: number) => Math.min(highest(), Math.max(LOWEST, Math.round(height)));

interface Props {
  cluster: Cluster;
  may: May;
}

/** The console at the bottom of every tab of a cluster: opened by its button or Ctrl+`, as high as one wants. */
export function ConsoleDrawer(props: Props) {
  const [open, setOpen] = useKept("console.open", false);
  const [height, setHeight] = useKept("console.height", USUAL);
  const place = useRef<HTMLElement>(null);
  const asked = useRef(false); // opened here and now, not remembered: the code gets the focus
  const toggle = () => {
    asked.current = !open;
    setOpen(!open);
  };
  const latest = useRef(toggle);
  latest.current = toggle;
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      if (event.code !== "Backquote" || !event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  useEffect(() => {
    if (!open || !asked.current) return;
    const timer = setInterval(() => {
      const code = place.current?.querySelector<HTMLElement>(".cell:last-child .cm-content");
      if (code == null) return; // it is still on its way
      asked.current = false;
      clearInterval(timer);
      code.focus();
    }, 50);
    return () => clearInterval(timer);
  }, [open]);
  return (
    <aside className="consoledrawer" aria-label="Console drawer" ref={place}>
      {open && <Edge height={height} onHeight={setHeight} />}
      <div className="handle">
        <button type="button" aria-expanded={open} aria-keyshortcuts="Control+`" onClick={toggle}>
          <Icon name={open ? "down" : "up"} size={14} /> Console <kbd>Ctrl `</kbd>
        </button>
        {open && (
          <Tooltip label="Close">
            <ActionIcon variant="subtle" color="gray" aria-label="Close the console" onClick={toggle}>
              <Icon name="close" size={14} />
            </ActionIcon>
          </Tooltip>
        )}
      </div>
      {open && (
        <div className="inside" style={{ height: bounded(height) }}>
          <Suspense fallback={<Waiting what="Loading the console" rows={2} />}>
            <Console {...props} />
          </Suspense>
        </div>
      )}
    </aside>
  );
}

/** The drawer's upper edge, which is drawn up and down. */
function Edge({ height, onHeight }: { height: number; onHeight: (height: number) => void }) {
  const drag = (event: PointerEvent<HTMLHRElement>) => {
    const edge = event.currentTarget;
    const from = event.clientY;
    edge.setPointerCapture(event.pointerId);
    edge.onpointermove = (moved) => onHeight(bounded(height + from - moved.clientY));
    edge.onpointerup = () => {
      edge.onpointermove = null;
    };
  };
  const press = (event: KeyboardEvent) => {
    const by = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onHeight(bounded(height + by));
  };
  return (
    <hr
      className="edge"
      tabIndex={0}
      aria-label="Height of the console"
      aria-orientation="horizontal"
      aria-valuemin={LOWEST}
      aria-valuemax={highest()}
      aria-valuenow={bounded(height)}
      onPointerDown={drag}
      onKeyDown={press}
    />
  );
}
