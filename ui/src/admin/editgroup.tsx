import { ActionIcon, Button, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { words } from "../api/client";
import { confirm } from "../kit/confirm";
import { DialogForm } from "../kit/forms";
import { Icon } from "../kit/icons";
import { Refused } from "../kit/refused";
import type { Submit } from "../kit/submit";
import { toast } from "../kit/toasts";
import { Waiting } from "../kit/waiting";
import { count } from "../lib/sizes";
import { Entitlements } from "./parts";
import {
  addMember,
  BUILT_IN,
  type Change,
  changeGroup,
  deleteGroup,
  entitle,
  type Group,
  groupQuery,
  groupsQuery,
  identitiesQuery,
  nameOf,
  type Reference,
  removeMember,
} from "./scim";

const MOST = 200; // members that are drawn

export function EditGroup({ group, close }: { group: Group; close: () => void }) {
  const queries = useQueryClient();
  const was = (group.entitlements ?? []).map((each) => each.value);
  const [name, setName] = useState(group.displayName);
  const [entitled, setEntitled] = useState(was);
  const builtIn = BUILT_IN.has(group.displayName);
  const act = async (work: () => Promise<void>, said: string) => {
    try {
      await work();
      toast(said);
      close();
    } finally {
      // The group itself is not read again: it may be gone.
      for (const kind of ["Groups", "Users", "ServicePrincipals"])
        void queries.invalidateQueries({ queryKey: ["scim", kind] });
    }
  };
  const save = async () => {
    const changes: Change[] = entitle(was, entitled);
    if (name.trim() !== group.displayName) changes.push({ op: "replace", path: "displayName", value: name.trim() });
    if (changes.length > 0) await changeGroup(group.id, changes);
  };
  const remove = async (call: Submit["call"]) => {
    const consequence = "Its members lose the permissions and entitlements that come from this group.";
    if (await confirm({ title: `Delete ${group.displayName}?`, consequence, action: "Delete" }))
      await call(() => act(() => deleteGroup(group.id), `${group.displayName} was deleted.`));
  };
  const deletion = ({ busy, call }: Submit) => (
    <Button variant="subtle" color="gray" disabled={busy} onClick={() => void remove(call)}>
      Delete
    </Button>
  );
  return (
    <Modal opened onClose={close} title={group.displayName} centered>
      <DialogForm
        action="Save"
        cancel="Close"
        submit={() => act(save, `${name.trim()} was updated.`)}
        close={close}
        aside={builtIn ? undefined : deletion}
      >
        {!builtIn && (
          <TextInput label="Name" required value={name} onChange={(event) => setName(event.currentTarget.value)} />
        )}
        {group.displayName === "users" ? (
          <Text>Everyone is a member of this group and has its entitlements.</Text>
        ) : (
          <Members group={group} />
        )}
        <Entitlements chosen={entitled} change={setEntitled} />
      </DialogForm>
    </Modal>
  );
}

/** Members are added and removed at once: a group may have very many of them. */
function Members({ group }: { group: Group }) {
  const queries = useQueryClient();
  const found = useQuery(groupQuery(group.id)).data;
  const members = found?.members ?? [];
  const changing = useMutation({
    mutationFn: ({ id, joins }: { id: string; joins: boolean }) => (joins ? addMember : removeMember)(group.id, id),
    onSettled: () => queries.invalidateQueries({ queryKey: ["scim"] }),
  });
  return (
    <Stack gap={6}>
      <Text size="xs" fw={500}>
        {found === undefined ? "Members" : count(members.length, "member")}
      </Text>
      {found === undefined ? (
        <Waiting what="Reading the members" rows={2} />
      ) : (
        <ul className="members">
          {members.slice(0, MOST).map((each) => (
            <Member
              key={each.value}
              member={each}
              busy={changing.isPending && changing.variables.id === each.value}
              remove={() => changing.mutate({ id: each.value, joins: false })}
            />
          ))}
          {members.length > MOST && <li className="soft">and {members.length - MOST} more</li>}
        </ul>
      )}
      <Add taken={members} add={(id) => changing.mutate({ id, joins: true })} />
      <Refused text={changing.isError ? words(changing.error) : ""} />
    </Stack>
  );
}

function Member({ member, busy, remove }: { member: Reference; busy: boolean; remove: () => void }) {
  const name = member.display || member.value;
  const kind = member.$ref?.split("/")[0];
  return (
    <li>
      <span>
        {name} {kind !== "Users" && <span className="soft">{kind === "Groups" ? "group" : "service principal"}</span>}
      </span>
      <ActionIcon size="sm" variant="subtle" color="gray" loading={busy} aria-label={`Remove ${name}`} onClick={remove}>
        <Icon name="close" size={12} />
      </ActionIcon>
    </li>
  );
}

function Add({ taken, add }: { taken: Reference[]; add: (id: string) => void }) {
  const [typed, setTyped] = useState("");
  const [part] = useDebouncedValue(typed, 150);
  const people = useInfiniteQuery(identitiesQuery("Users", part)).data?.pages[0]?.Resources ?? [];
  const programs = useInfiniteQuery(identitiesQuery("ServicePrincipals", part)).data?.pages[0]?.Resources ?? [];
  const groups = useQuery(groupsQuery).data ?? [];
  const there = new Set(taken.map((each) => each.value));
  const options = (found: { value: string; label: string }[]) => found.filter((each) => !there.has(each.value));
  return (
    <Select
      aria-label="Add a member"
      placeholder="Add a user, a service principal or a group"
      searchable
      nothingFoundMessage="No matches"
      data={[
        { group: "Users", items: options(people.map((each) => ({ value: each.id, label: nameOf(each) }))) },
        {
          group: "Service principals",
          items: options(programs.map((each) => ({ value: each.id, label: nameOf(each) }))),
        },
        {
          group: "Groups",
          items: options(
            groups
              .filter((each) => each.displayName !== "users")
              .map((each) => ({ value: each.id, label: each.displayName })),
          ),
        },
      ]}
      value={null}
      searchValue={typed}
      onSearchChange={setTyped}
      onChange={(id) => {
        if (id !== null) add(id);
        setTyped("");
      }}
    />
  );
}
