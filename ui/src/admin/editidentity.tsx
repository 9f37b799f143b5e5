import { Button, Modal, MultiSelect, Switch, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../access/rights";
import { confirm } from "../kit/confirm";
import { DialogForm } from "../kit/forms";
import type { Submit } from "../kit/submit";
import { toast } from "../kit/toasts";
import { ClientSecrets } from "./clientsecrets";
import { Entitlements } from "./parts";
import {
  addMember,
  type Change,
  changeIdentity,
  deleteIdentity,
  directGroups,
  entitle,
  groupsQuery,
  type Identity,
  type Kind,
  nameOf,
  removeMember,
} from "./scim";

interface Draft {
  shown: string;
  active: boolean;
  member: string[];
  entitled: string[];
}

const draftOf = (identity: Identity): Draft => ({
  shown: identity.displayName ?? "",
  active: identity.active !== false,
  member: directGroups(identity).map((each) => each.value),
  entitled: (identity.entitlements ?? []).map((each) => each.value),
});

/** Writes what differs. Groups are changed one by one: each is a resource of its own. */
async function save(kind: Kind, identity: Identity, draft: Draft): Promise<void> {
  const was = draftOf(identity);
  const changes: Change[] = entitle(was.entitled, draft.entitled);
  if (draft.shown !== was.shown) changes.push({ op: "replace", path: "displayName", value: draft.shown });
  if (draft.active !== was.active) changes.push({ op: "replace", path: "active", value: draft.active });
  if (changes.length > 0) await changeIdentity(kind, identity.id, changes);
  for (const group of draft.member.filter((each) => !was.member.includes(each))) await addMember(group, identity.id);
  for (const group of was.member.filter((each) => !draft.member.includes(each))) await removeMember(group, identity.id);
}

export function EditIdentity({ kind, identity, close }: { kind: Kind; identity: Identity; close: () => void }) {
  const queries = useQueryClient();
  const groups = useQuery(groupsQuery).data ?? [];
  const me = useQuery(meQuery).data?.name;
  const [draft, setDraft] = useState(() => draftOf(identity));
  const name = nameOf(identity);
  const set = (changed: Partial<Draft>) => setDraft((old) => ({ ...old, ...changed }));
  const act = async (work: () => Promise<void>, said: string) => {
    try {
      await work();
      toast(said);
      close();
    } finally {
      await queries.invalidateQueries({ queryKey: ["scim"] });
    }
  };
  const remove = async (call: Submit["call"]) => {
    const consequence = `${name} loses all tokens, groups and permissions. Their clusters are kept. To keep the rest too, deactivate the user instead.`;
    if (await confirm({ title: `Delete ${name}?`, consequence, action: "Delete" }))
      await call(() => act(() => deleteIdentity(kind, identity.id), `${name} was deleted.`));
  };
  return (
    <Modal opened onClose={close} title={name} centered>
      <DialogForm
        action="Save"
        submit={() => act(() => save(kind, identity, draft), `${name} was updated.`)}
        close={close}
        aside={({ busy, call }) => (
          <Button variant="subtle" color="gray" disabled={name === me || busy} onClick={() => void remove(call)}>
            Delete
          </Button>
        )}
      >
        {identity.applicationId && (
          <Text size="sm" className="mono">
            {identity.applicationId}
          </Text>
        )}
        <TextInput
          label="Display name"
          value={draft.shown}
          onChange={(event) => set({ shown: event.currentTarget.value })}
        />
        <Switch
          size="xs"
          checked={draft.active}
          onChange={(event) => set({ active: event.currentTarget.checked })}
          label="Active"
          description="Deactivated users are locked out: their tokens stop working and their running code is stopped."
          disabled={name === me}
        />
        <MultiSelect
          size="xs"
          label="Groups"
          data={groups
            .filter((each) => each.displayName !== "users")
            .map((each) => ({ value: each.id, label: each.displayName }))}
          searchable
          value={draft.member}
          onChange={(member) => set({ member })}
        />
        <Entitlements chosen={draft.entitled} change={(entitled) => set({ entitled })} />
      </DialogForm>
      {kind === "ServicePrincipals" && <ClientSecrets principal={identity.id} />}
    </Modal>
  );
}
