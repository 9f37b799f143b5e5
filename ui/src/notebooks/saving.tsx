import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import { confirm } from "../kit/confirm";
import { Scroller } from "../kit/scroller";
import { useValue } from "../lib/value";
import type { OpenNotebook } from "./book";
import { differences } from "./differences";
import type { SaveState } from "./saver";

const WORDS: Record<SaveState["kind"], string> = {
  saved: "Saved",
  waiting: "Edited",
  saving: "Saving",
  trouble: "Not saved yet",
  refused: "Not saved",
  conflict: "Not saved",
};

/** What of the notebook is saved, in a word. */
export function SaveWord({ book }: { book: OpenNotebook }) {
  const { kind } = useValue(book.saver.state);
  const look = kind === "saved" ? "off" : kind === "waiting" || kind === "saving" ? "wait" : "bad";
  return (
    <span className={`word ${look}`} role="status" aria-label="Saving">
      {WORDS[kind]}
    </span>
  );
}

/** What keeps the notebook from being saved, and what to do about it. */
export function SaveTrouble({ book }: { book: OpenNotebook }) {
  const state = useValue(book.saver.state);
  const atRisk = useValue(book.saver.atRisk);
  if (state.kind === "conflict") return <Conflict book={book} state={state} />;
  if (state.kind !== "trouble" && state.kind !== "refused") return null;
  return (
    <div className="banner" role="alert">
      <Text size="sm">
        {state.why} {state.kind === "trouble" && "The page tries again every 5 seconds. "}
        {atRisk
          ? "This browser could not keep your changes: leave this page open."
          : "This browser keeps your changes."}
      </Text>
      <Button variant="default" onClick={() => void book.saver.flush()}>
        Save now
      </Button>
    </div>
  );
}

function Conflict({ book, state: { theirs } }: { book: OpenNotebook; state: SaveState & { kind: "conflict" } }) {
  const [compared, setCompared] = useState(false);
  const drop = async () => {
    const consequence = "Your changes to this notebook since the last save are lost.";
    if (!(await confirm({ title: "Discard your changes?", consequence, action: "Discard" }))) return;
    book.saver.takeTheirs();
    book.show(book.saver.base);
  };
  return (
    <div className="banner" role="alert">
      <Text size="sm">
        {theirs
          ? "Someone else changed this notebook. Your changes are not saved. This browser keeps them until you decide."
          : "Someone else deleted this notebook. Your changes are not saved. This browser keeps them."}
      </Text>
      <Group gap={6}>
        <Button variant="default" onClick={() => void book.saver.keepMine()}>
          {theirs ? "Keep my version" : "Save it again"}
        </Button>
        {theirs && (
          <>
            <Button variant="default" onClick={() => void drop()}>
              Take their version
            </Button>
            <Button variant="subtle" color="gray" aria-expanded={compared} onClick={() => setCompared(!compared)}>
              {compared ? "Hide the differences" : "Show the differences"}
            </Button>
          </>
        )}
      </Group>
      {compared && theirs && <Differences one={theirs.source} other={book.source()} />}
    </div>
  );
}

/** Lines that only one of two texts has. */
export function Differences({ one, other }: { one: string; other: string }) {
  const found = differences(one, other);
  if (found.length === 0) return <Text size="sm">There are none.</Text>;
  return (
    <Scroller className="shown-code diff" label="Differences">
      {found.map(({ mark, text }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
        <div key={at} className={mark === "+" ? "mine" : mark === "-" ? "theirs" : undefined}>
          {mark} {text}
        </div>
      ))}
    </Scroller>
  );
}
