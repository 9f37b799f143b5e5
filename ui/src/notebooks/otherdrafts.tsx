import { Button, Group, Text } from "@mantine/core";
import { useCallback, useEffect, useState } from "react";
import { confirm } from "../kit/confirm";
import { ago, useNow } from "../lib/time";
import { useValue } from "../lib/value";
import type { OpenNotebook } from "./book";
import type { OtherDraft } from "./drafts";
import { Differences } from "./saving";

const LOOK_MS = 5000;
const MINUTE = 60_000;

/** What other tabs of this browser have not saved of the notebook. */
export function OtherDrafts({ book, readOnly }: { book: OpenNotebook; readOnly: boolean }) {
  const [found, setFound] = useState<OtherDraft[]>([]);
  const look = useCallback(async () => {
    const others = await book.drafts.others();
    // What has been saved since, by the tab or as it was closed, is no news.
    const isSaved = (each: OtherDraft) => each.source === book.saver.base.source;
    for (const each of others.filter(isSaved)) book.drafts.forget(each.source, each.tab);
    setFound(others.filter((each) => !isSaved(each)));
  }, [book]);
  useEffect(() => {
    const now = () => void look();
    now();
    const timer = setInterval(now, LOOK_MS);
    addEventListener("storage", now);
    return () => {
      clearInterval(timer);
      removeEventListener("storage", now);
    };
  }, [look]);
  return found.map((each) => (
    <Other key={each.tab} book={book} draft={each} readOnly={readOnly} look={() => void look()} />
  ));
}

interface Props {
  book: OpenNotebook;
  draft: OtherDraft;
  readOnly: boolean;
  look: () => void;
}

function Other({ book, draft, readOnly, look }: Props) {
  const [compared, setCompared] = useState(false);
  const { kind } = useValue(book.saver.state);
  const now = useNow(MINUTE);
  const discard = async () => {
    const consequence = "The changes that the closed tab did not save are lost.";
    if (!(await confirm({ title: "Discard these changes?", consequence, action: "Discard" }))) return;
    book.drafts.forget(draft.source, draft.tab);
    look();
  };
  const use = () => {
    book.adopt(draft);
    look();
  };
  return (
    <div className="banner" role="status" aria-label="Another tab">
      <Text size="sm">
        {draft.closed
          ? `A tab that is closed has unsaved changes to this notebook, from ${ago(draft.at, now)}.`
          : "Another tab of this browser has unsaved changes to this notebook."}
      </Text>
      <Group gap={6}>
        {draft.closed && !readOnly && (
          <>
            <Button variant="default" disabled={kind !== "saved"} onClick={use}>
              Use these changes
            </Button>
            <Button variant="default" onClick={() => void discard()}>
              Discard them
            </Button>
          </>
        )}
        <Button variant="subtle" color="gray" aria-expanded={compared} onClick={() => setCompared(!compared)}>
          {compared ? "Hide the differences" : "Show the differences"}
        </Button>
      </Group>
      {compared && <Differences one={book.source()} other={draft.source} />}
    </div>
  );
}
