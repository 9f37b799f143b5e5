import { Button, Modal, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { words } from "../api/client";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { bytes } from "../lib/sizes";
import { ago, exactly, useNow } from "../lib/time";
import type { OpenNotebook } from "./book";
import { type Version, version, versions } from "./calls";
import { Differences } from "./saving";

const MINUTE = 60_000;

interface Props {
  book: OpenNotebook;
  readOnly: boolean;
  close: () => void;
}

/** What the notebook contained before, and a way back to it. */
export function Versions({ book, readOnly, close }: Props) {
  const asked = useQuery({
    queryKey: ["notebook", book.path, "versions"],
    queryFn: () => versions(book.path),
    staleTime: 0,
    gcTime: 0,
  });
  const [shown, setShown] = useState<Version>();
  return (
    <Modal opened onClose={close} title="Versions" size="xl">
      {asked.data === undefined ? (
        <Reading query={asked} what="Reading the versions" rows={3} />
      ) : asked.data.length === 0 ? (
        <Text size="sm">
          No versions yet. The workspace keeps what a notebook contained when it is changed: once in five minutes of
          your own edits, and before each change of somebody else's content.
        </Text>
      ) : (
        <List found={asked.data} shown={shown} show={setShown} />
      )}
      {shown && <Shown key={shown.version_id} book={book} shown={shown} readOnly={readOnly} close={close} />}
    </Modal>
  );
}

interface ListProps {
  found: Version[];
  shown: Version | undefined;
  show: (version: Version) => void;
}

function List({ found, shown, show }: ListProps) {
  const now = useNow(MINUTE);
  return (
    <PlainTable heads={["Saved", "By", "Size"]} unseen="Actions">
      {found.map((each) => (
        <tr key={each.version_id}>
          <td data-label="Saved" title={exactly(each.saved_at)}>
            {ago(each.saved_at, now)}
          </td>
          <td data-label="By">{each.saved_by || "a program, or unknown"}</td>
          <td data-label="Size" className="figures">
            {bytes(each.size)}
          </td>
          <td className="end">
            <Button
              variant="subtle"
              color="gray"
              aria-pressed={shown?.version_id === each.version_id}
              aria-label={`Show the version of ${exactly(each.saved_at)}`}
              onClick={() => show(each)}
            >
              Show
            </Button>
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

interface ShownProps extends Props {
  shown: Version;
}

function Shown({ book, shown, readOnly, close }: ShownProps) {
  const asked = useQuery({
    queryKey: ["notebook", book.path, "version", shown.version_id],
    queryFn: () => version(book.path, shown.version_id),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const restoring = useMutation({
    mutationFn: async (source: string) => {
      book.replace(source);
      await book.saver.flush();
    },
    onSuccess: () => {
      if (!book.saver.unsaved) toast(`The version of ${exactly(shown.saved_at)} was restored.`);
      close();
    },
    onError: (error) => toast(words(error), { failed: true }),
  });
  const source = asked.data;
  if (source === undefined) return <Reading query={asked} what="Reading the version" rows={3} />;
  return (
    <section aria-label="Version" className="nbversion">
      <Text size="sm">What this version (+) has other than the notebook now (-):</Text>
      <Differences one={book.source()} other={source} />
      {!readOnly && (
        <Button loading={restoring.isPending} onClick={() => restoring.mutate(source)}>
          Restore this version
        </Button>
      )}
    </section>
  );
}
