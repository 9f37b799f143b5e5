import { ActionIcon, Button, Group, TextInput, Tooltip } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useLayoutEffect, useMemo, useRef, useState } from "react";
import { words } from "../api/client";
import { marked, pieces, plain } from "../code/ansi";
import { Icon } from "../kit/icons";
import { Scroller } from "../kit/scroller";
import { toast } from "../kit/toasts";
import { useTyping } from "../kit/typing";
import { bytes, count } from "../lib/sizes";

const LINE = 18; // pixels
const NEAR = 24; // pixels from the end that still count as the end

interface Props {
  lines: readonly string[];
  complete: boolean; // they begin where the log begins, so that their numbers are known
  wrap: boolean;
  find: string;
  onFind: (text: string) => void;
  earlier: (() => Promise<number>) | undefined;
  before: number; // bytes
  children: ReactNode;
}

/** What a terminal would show of a line that was written over. */
const visible = (line: string) => {
  const whole = line.endsWith("\r") ? line.slice(0, -1) : line;
  return whole.slice(whole.lastIndexOf("\r") + 1);
};

export function LogLines({ lines, complete, wrap, find, onFind, earlier, before, children }: Props) {
  const shown = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  const scroller = useRef<HTMLElement>(null);
  const [following, setFollowing] = useState(true);
  const [seen, setSeen] = useState(0); // lines when the reader went away from the end
  const [typed, setTyped] = useState(find);
  const [at, setAt] = useState(-1); // of the hits; -1: none was gone to yet
  const arriving = useRef(find !== ""); // a link leads to the first line that has it
  const later = useTyping(onFind, 200);
  const wanted = typed.toLowerCase();
  const hits = useMemo(() => {
    if (wanted === "") return [];
    return lines.flatMap((line, index) => (plain(visible(line)).toLowerCase().includes(wanted) ? [index] : []));
  }, [lines, wanted]);
  const virtual = useVirtualizer({
    count: shown,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE,
    overscan: 30,
  });
  const { scrollToIndex, measure } = virtual;
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines have other heights then
  useLayoutEffect(() => measure(), [wrap, measure]);
  useLayoutEffect(() => {
    if (following && shown > 0) scrollToIndex(shown - 1, { align: "end" });
  }, [following, shown, scrollToIndex]);

  const last = useRef(0);
  const scrolled = () => {
    const element = scroller.current;
    if (element === null) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    if (atEnd) setFollowing(true);
    else if (element.scrollTop < last.current && following) stop();
    last.current = element.scrollTop;
  };
  const stop = () => {
    setFollowing(false);
    setSeen(shown);
  };
  const goTo = (index: number) => {
    const hit = hits[(index + hits.length) % hits.length];
    if (hit === undefined) return;
    stop();
    setAt((index + hits.length) % hits.length);
    scrollToIndex(hit, { align: "center" });
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as soon as there is a hit
  useLayoutEffect(() => {
    if (!arriving.current || hits.length === 0) return;
    arriving.current = false;
    goTo(0);
  }, [hits]);
  const chosen = Math.max(0, Math.min(at, hits.length - 1));
  const current = hits[chosen];
  const fresh = following ? 0 : shown - seen;
  const more = async () => {
    if (earlier === undefined) return;
    setFollowing(false);
    try {
      const came = await earlier();
      setSeen((now) => now + came);
      scrollToIndex(came, { align: "start" });
    } catch (error) {
      toast(words(error), { failed: true });
    }
  };
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Group gap={4} role="search" aria-label="In the log">
          <TextInput
            data-search
            aria-label="Search the log"
            placeholder="Search the log"
            leftSection={<Icon name="search" />}
            w={220}
            value={typed}
            onChange={(event) => {
              arriving.current = false;
              setTyped(event.currentTarget.value);
              setAt(-1);
              later(event.currentTarget.value);
            }}
            onKeyDown={(event) => {
              if (event.key !== "Enter") return;
              event.preventDefault();
              goTo(event.shiftKey ? chosen - 1 : at + 1);
            }}
          />
          {wanted !== "" && (
            <>
              <Tooltip label="Previous (Shift Enter)">
                <ActionIcon variant="subtle" color="gray" aria-label="Previous match" onClick={() => goTo(chosen - 1)}>
                  <Icon name="up" size={14} />
                </ActionIcon>
              </Tooltip>
              <Tooltip label="Next (Enter)">
                <ActionIcon variant="subtle" color="gray" aria-label="Next match" onClick={() => goTo(at + 1)}>
                  <Icon name="down" size={14} />
                </ActionIcon>
              </Tooltip>
              <span className="soft" role="status">
                {hits.length === 0 ? "No line matches" : `${chosen + 1} of ${count(hits.length, "line")}`}
                {complete ? "" : " in the part shown"}
              </span>
            </>
          )}
        </Group>
        <Group gap={6}>
          {children}
          <Button
            variant={following ? "light" : "default"}
            aria-pressed={following}
            onClick={() => (following ? stop() : setFollowing(true))}
          >
            {following ? "Following" : fresh > 0 ? `Follow: ${count(fresh, "new line")}` : "Follow"}
          </Button>
        </Group>
      </Group>
      <div className="logbox">
        <Scroller className={wrap ? "log wrap" : "log"} ref={scroller} label="The log" onScroll={scrolled}>
          {earlier && (
            <Button variant="subtle" color="gray" onClick={() => void more()}>
              Show earlier lines ({bytes(before)})
            </Button>
          )}
          {shown <= 0 && <p className="soft">Nothing has been written yet.</p>}
          <div className="lines" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map((item) => (
              <div
                key={item.key}
                data-index={item.index}
                ref={wrap ? virtual.measureElement : undefined}
                className={item.index === current ? "line current" : "line"}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <span className="number" aria-hidden="true">
                  {complete ? item.index + 1 : ""}
                </span>
                <code>
                  {marked(pieces(visible(lines[item.index] ?? "")), wanted).map((piece, index) => (
                    <span key={String(index)} className={piece.style || undefined}>
                      {piece.text}
                    </span>
                  ))}
                </code>
              </div>
            ))}
          </div>
        </Scroller>
      </div>
    </>
  );
}
