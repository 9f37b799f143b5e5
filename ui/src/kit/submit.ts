import { type SubmitEvent, useState } from "react";
import { words } from "../api/client";

export type Submit = ReturnType<typeof useSubmit>;

/** The state of a form that calls the server: whether it waits for the answer, and why the last call was refused. */
export function useSubmit() {
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const call = async (work: () => Promise<unknown>) => {
    setBusy(true);
    setRefused("");
    try {
      await work();
    } catch (error) {
      setRefused(words(error));
    }
    setBusy(false);
  };
  const onSubmit = (work: () => Promise<unknown>) => (event: SubmitEvent) => {
    event.preventDefault();
    if (!busy) void call(work);
  };
  return { busy, refused, call, onSubmit };
}
