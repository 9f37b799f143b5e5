import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { words } from "../api/client";
import { toast } from "../kit/toasts";
import { useStored } from "./draftstore";
import { same } from "./spec";
import { conflictText } from "./theirfields";

/** What is saved of a draft, by the API's names. */
export type Fields = Record<string, unknown>;

interface Saving<Draft> {
  noun: string;
  id: string | undefined; // of what is edited; undefined: it is created
  user: string;
  initial: Draft; // what the page begins with
  draft: Draft;
  setDraft: (draft: Draft) => void;
  name: string;
  fieldsOf: (draft: Draft) => Fields;
  read: (id: string) => Promise<Fields>; // what the server has now
  create: () => Promise<string>;
  edit: (id: string) => Promise<unknown>;
  done: (id: string) => Promise<void>;
  placed?: (message: string) => boolean; // whether the message is shown beside a field
}

/** Somebody else has saved the object since it was read. */
class Conflict extends Error {}

/** Saves a draft, unless somebody else has saved the object since it was read. A draft outlives a reload of its page. */
export function useSaving<Draft>(saving: Saving<Draft>) {
  const { noun, id, user, initial, draft, setDraft, name, fieldsOf, read, create, edit, done, placed } = saving;
  const fields = fieldsOf(draft);
  const [first] = useState({ name, fields: fieldsOf(initial) });
  const stored = useStored<Draft>(user, `${noun} ${id ?? "new"}`);
  const [base, setBase] = useState<object>(stored.found?.base ?? first.fields); // what the draft changes
  const [restored, setRestored] = useState(stored.found?.at);
  const unsaved = !same(fields, first.fields);
  const { found, keep } = stored;
  const begin = useRef(() => found !== undefined && setDraft(found.draft));
  useEffect(() => void begin.current(), []);
  useEffect(() => keep(unsaved ? draft : undefined, base));
  const [problem, setProblem] = useState<string>();
  const save = useMutation({
    onMutate: () => setProblem(undefined),
    onError: (error) => {
      const text = words(error);
      if (error instanceof Conflict || !placed?.(text)) setProblem(text);
    },
    mutationFn: async () => {
      if (id !== undefined) {
        const now = await read(id);
        if (!same(now, base)) {
          setBase(now);
          throw new Conflict(conflictText(noun, base, now));
        }
        await edit(id);
      }
      const saved = id ?? (await create());
      keep(undefined);
      toast(`${name} was ${id === undefined ? "created" : "saved"}.`);
      await done(saved);
    },
  });
  const discard = () => {
    setDraft(initial);
    setBase(first.fields);
    setRestored(undefined);
  };
  return {
    title: id === undefined ? `Create ${noun}` : `Edit ${first.name}`,
    action: id === undefined ? `Create ${noun}` : "Save",
    act: () => save.mutate(),
    busy: save.isPending,
    problem,
    unsaved,
    restored: restored === undefined ? undefined : { at: restored, discard, close: () => setRestored(undefined) },
  };
}
