import { Button, Checkbox, Group, Modal, MultiSelect, Stack, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { words } from "../api/client";
import { DialogForm } from "../kit/forms";
import { Refused } from "../kit/refused";
import { Entitlements } from "./parts";
import { createIdentity, groupsQuery, type Identity, type Kind, nameOf, principalOf } from "./scim";
import { LIFETIME, Lifetime, makesForOthers, makeToken, Secret } from "./secret";

interface Made {
  identity: Identity;
  token: string;
  refused: string; // why there is no token, if there was to be one
}

/** Everything that a colleague, or a program, needs to begin: an identity, what it may do, and a token. */
export function AddIdentity({ kind, close }: { kind: Kind; close: () => void }) {
  const queries = useQueryClient();
  const [made, setMade] = useState<Made | null>(null);
  const person = kind === "Users";
  const title =
    made === null ? (person ? "Add a user" : "Add a service principal") : `${nameOf(made.identity)} was added`;
  const done = (found: Made) => {
    setMade(found);
    void queries.invalidateQueries({ queryKey: ["scim"] });
    void queries.invalidateQueries({ queryKey: ["tokens"] });
  };
  return (
    <Modal opened onClose={close} title={title} centered closeOnClickOutside={false}>
      {made === null ? (
        <Form person={person} kind={kind} close={close} done={done} />
      ) : (
        <Added made={made} close={close} />
      )}
    </Modal>
  );
}

function Form({
  person,
  kind,
  close,
  done,
}: {
  person: boolean;
  kind: Kind;
  close: () => void;
  done: (made: Made) => void;
}) {
  const groups = useQuery(groupsQuery).data ?? [];
  const [name, setName] = useState("");
  const [shown, setShown] = useState("");
  const [member, setMember] = useState<string[]>([]);
  const [entitled, setEntitled] = useState<string[]>(["workspace-access"]);
  const [withToken, setWithToken] = useState(makesForOthers);
  const [lifetime, setLifetime] = useState(LIFETIME);
  const add = async () => {
    const identity = await createIdentity(kind, {
      ...(person ? { userName: name.trim() } : {}),
      ...(shown.trim() ? { displayName: shown.trim() } : {}),
      groups: member.map((value) => ({ value })),
      entitlements: entitled.map((value) => ({ value })),
    });
    done({ identity, ...(withToken ? await firstToken(identity, lifetime) : { token: "", refused: "" }) });
  };
  return (
    <DialogForm action="Add" submit={add} close={close}>
      {person && (
        <TextInput
          label="User name"
          description="The email address that the user logs in with. It cannot be changed later."
          placeholder="someone@example.com"
          spellCheck={false}
          autoComplete="off"
          required
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
        />
      )}
      <TextInput
        label="Display name"
        required={!person}
        value={shown}
        onChange={(event) => setShown(event.currentTarget.value)}
        data-autofocus={!person || undefined}
      />
      <MultiSelect
        size="xs"
        label="Groups"
        placeholder={member.length === 0 ? "Choose groups" : undefined}
        description="Members get the group's permissions and entitlements. Everyone is a member of users."
        data={groups
          .filter((each) => each.displayName !== "users")
          .map((each) => ({ value: each.id, label: each.displayName }))}
        searchable
        value={member}
        onChange={setMember}
      />
      <Entitlements chosen={entitled} change={setEntitled} />
      {makesForOthers() && (
        <Checkbox
          checked={withToken}
          onChange={(event) => setWithToken(event.currentTarget.checked)}
          label="Create a token"
          description={
            person ? "For logging in to this page, the SDK and the CLI." : "The program logs in with this token."
          }
        />
      )}
      {withToken && <Lifetime value={lifetime} change={setLifetime} />}
    </DialogForm>
  );
}

async function firstToken(identity: Identity, lifetime: string): Promise<{ token: string; refused: string }> {
  try {
    return { token: await makeToken("first token", lifetime, principalOf(identity)), refused: "" };
  } catch (error) {
    return { token: "", refused: words(error) };
  }
}

function Added({ made, close }: { made: Made; close: () => void }) {
  return (
    <Stack gap="md">
      {made.token !== "" && (
        <Secret text={made.token} what={`Token for ${nameOf(made.identity)} at ${location.host}.`} />
      )}
      {made.refused !== "" && <Refused text={`The token was not created: ${made.refused}`} />}
      {made.token === "" && made.refused === "" && (
        <Text>No token was created. The user logs in through the identity provider.</Text>
      )}
      <Group justify="flex-end">
        <Button onClick={close}>Done</Button>
      </Group>
    </Stack>
  );
}
