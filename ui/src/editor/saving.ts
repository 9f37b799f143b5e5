import { useState } from "react";
import { words } from "../api/client";
import { toast } from "../kit/toasts";
import { same } from "./spec";

interface Saving<Fields> {
  noun: string;
  id: string | undefined; // of what is edited; undefined: it is created
  name: string;
  fields: Fields; // what is saved of the draft
  read: (id: string) => Promise<Fields>; // what the server has now
  create: () => Promise<string>;
  edit: (id: string) => Promise<unknown>;
  done: (id: string) => Promise<void>;
  placed?: (message: string) => boolean; // whether the message is shown beside a field
}

/** Saves a draft, unless somebody else has saved the object since it was read. */
export function useSaving<Fields>(saving: Saving<Fields>) {
  const { noun, id, name, fields, read, create, edit, done, placed } = saving;
  const [first] = useState({ name, fields });
  const [base, setBase] = useState(fields); // what is saved, as far as the page knows
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const act = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      if (id !== undefined) {
        const now = await read(id);
        if (!same(now, base)) {
          setBase(now);
          setProblem(`Someone else saved this ${noun} first. Save again to replace their changes.`);
          return;
        }
        await edit(id);
      }
      const saved = id ?? (await create());
      toast(`${name} was ${id === undefined ? "created" : "saved"}.`);
      await done(saved);
    } catch (error) {
      if (!placed?.(words(error))) setProblem(words(error));
    } finally {
      setBusy(false);
    }
  };
  const head = id === undefined ? `Create ${noun}` : `Edit ${first.name}`;
  const action = id === undefined ? `Create ${noun}` : "Save";
  return { title: head, action, act: () => void act(), busy, problem, unsaved: !same(fields, first.fields) };
}
