import { ActionIcon, Group, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { type Cluster, words } from "../api/client";
import { refresh } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { checks, editCluster, resizeCluster, validate } from "../editor/calls";
import { type Spec, same } from "../editor/spec";
import { confirm } from "../kit/confirm";
import { Icon } from "../kit/icons";
import { toast } from "../kit/toasts";
import { changed, type Read } from "./changes";

const SIZE = ["num_workers", "autoscale"];
/** States in which the server takes an edit. */
export const EDITABLE = new Set(["RUNNING", "TERMINATED"]);

/** Saves a few fields of the cluster, unless somebody else has changed it since. Returns whether it has: one can still refuse a restart. */
async function save(cluster: Cluster, changes: Spec): Promise<boolean> {
  const id = cluster.cluster_id;
  const base = (cluster.spec ?? {}) as Spec;
  const wanted = changed(base, changes);
  if (same(wanted, base)) return true;
  const runs = cluster.state === "RUNNING";
  if (runs && Object.keys(changes).every((field) => SIZE.includes(field))) {
    await resizeCluster(id, wanted);
    return true;
  }
  const verdict = await validate({ id }, wanted);
  if (!verdict.valid) throw new Error(verdict.errors.map((each) => each.message).join("\n"));
  const restarts = checks() ? (verdict.restart_fields ?? []) : Object.keys(changes);
  if (runs && restarts.length > 0) {
    const yes = await confirm({
      title: `Restart ${nameOf(cluster)}?`,
      consequence: `Saving restarts the cluster because of ${restarts.join(", ")}. Everything that runs on it is stopped.`,
      action: "Save and restart",
    });
    if (!yes) return false;
  }
  await editCluster(id, base, wanted);
  return true;
}

interface Props {
  cluster: Cluster;
  label: string; // of the value
  initial: string; // what is typed for the value as it is
  hint: string;
  read: Read;
  adds?: boolean; // there is no value yet: `children` says what is added
  children: ReactNode; // the value as it is shown
}

/** A value that is changed where it stands: Enter saves, Esc leaves it. */
export function InPlace({ cluster, label, initial, hint, read, adds = false, children }: Props) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState<string>();
  const button = useRef<HTMLButtonElement>(null);
  const returns = useRef(false);
  const close = () => {
    returns.current = true;
    setTyped(undefined);
  };
  useEffect(() => {
    if (typed === undefined && returns.current) button.current?.focus();
    if (typed === undefined) returns.current = false;
  }, [typed]);
  const saving = useMutation({
    mutationFn: async (text: string) => {
      const changes = read(text);
      if (changes === null) throw new Error(hint);
      const saved = await save(cluster, changes);
      await refresh(queries, [cluster.cluster_id]);
      return saved;
    },
    onSuccess: (saved) => {
      if (!saved) return;
      close();
      toast(`${nameOf(cluster)} was saved.`);
    },
  });
  if (typed === undefined)
    return (
      <button
        type="button"
        ref={button}
        className="inplace"
        onClick={() => {
          saving.reset();
          setTyped(initial);
        }}
      >
        <span>
          {!adds && <span className="unseen">Change {label}: </span>}
          {children}
        </span>
        <Icon name={adds ? "plus" : "pencil"} size={12} />
      </button>
    );
  return (
    <form
      aria-label={adds ? label : `Change ${label}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (!saving.isPending) saving.mutate(typed);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      <Group gap={4} wrap="nowrap" align="flex-start">
        <TextInput
          size="xs"
          flex={1}
          aria-label={label}
          value={typed}
          autoFocus
          onFocus={(event) => event.currentTarget.select()}
          spellCheck={false}
          autoComplete="off"
          description={hint}
          inputWrapperOrder={["label", "input", "description", "error"]}
          error={saving.error === null ? undefined : words(saving.error)}
          errorProps={{ role: "alert" }}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <ActionIcon type="submit" variant="default" size={30} loading={saving.isPending} aria-label={`Save ${label}`}>
          <Icon name="check" size={14} />
        </ActionIcon>
        <ActionIcon variant="default" size={30} aria-label={`Leave ${label} as it is`} onClick={close}>
          <Icon name="close" size={14} />
        </ActionIcon>
      </Group>
    </form>
  );
}
