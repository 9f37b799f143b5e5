import { Button, Modal, Group as Row, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { DialogForm } from "../kit/forms";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { count } from "../lib/sizes";
import { EditGroup } from "./editgroup";
import { Entitlements, Find, Names } from "./parts";
import { BUILT_IN, createGroup, ENTITLEMENTS, type Group, groupsQuery } from "./scim";
import type { AdminProps } from "./search";

const STEP = 200; // rows that are drawn at once
const label = (value: string) => ENTITLEMENTS.find((each) => each.value === value)?.label ?? value;

export default function Groups({ search, change }: AdminProps) {
  const asked = useQuery(groupsQuery);
  const [adding, setAdding] = useState(false);
  const [most, setMost] = useState(STEP);
  const wanted = (search.q ?? "").toLowerCase();
  const fits = (asked.data ?? []).filter((each) => each.displayName.toLowerCase().includes(wanted));
  const opened = asked.data?.find((each) => each.id === search.open);
  return (
    <>
      <Row justify="space-between" gap="xs">
        <Find label="Search by name" text={search.q ?? ""} change={(q) => change({ q })} />
        <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setAdding(true)}>
          Add a group
        </Button>
      </Row>
      {asked.data === undefined ? (
        <Reading query={asked} what="Reading the groups" />
      ) : fits.length === 0 ? (
        <Text className="nothing">No groups match.</Text>
      ) : (
        <>
          <Text size="sm" c="dimmed">
            {count(fits.length, "group")}
          </Text>
          <Rows groups={fits.slice(0, most)} open={(id) => change({ open: id })} />
          {fits.length > most && <More what="More groups" loading={false} load={() => setMost(most + STEP)} />}
        </>
      )}
      {adding && <AddGroup close={() => setAdding(false)} open={(id) => change({ open: id })} />}
      {opened !== undefined && <EditGroup key={opened.id} group={opened} close={() => change({ open: undefined })} />}
    </>
  );
}

function Rows({ groups, open }: { groups: Group[]; open: (id: string) => void }) {
  return (
    <PlainTable heads={["Name", "Member of", "Entitlements"]}>
      {groups.map((each) => (
        <tr key={each.id}>
          <td data-label="Name">
            <span>
              <UnstyledButton className="link" onClick={() => open(each.id)}>
                {each.displayName}
              </UnstyledButton>
              {BUILT_IN.has(each.displayName) && (
                <span className="under">{each.displayName === "admins" ? "Full access" : "Everyone is a member"}</span>
              )}
            </span>
          </td>
          <td data-label="Member of">
            <Names names={(each.groups ?? []).map((group) => group.display ?? group.value)} />
          </td>
          <td data-label="Entitlements">
            <Names names={(each.entitlements ?? []).map(({ value }) => label(value))} />
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

function AddGroup({ close, open }: { close: () => void; open: (id: string) => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [entitled, setEntitled] = useState<string[]>([]);
  const add = async () => {
    const made = await createGroup(name.trim(), entitled);
    await queries.invalidateQueries({ queryKey: ["scim"] });
    toast(`${made.displayName} was added. Now add its members.`);
    close();
    open(made.id);
  };
  return (
    <Modal opened onClose={close} title="Add a group" centered>
      <DialogForm action="Add" submit={add} close={close}>
        <TextInput
          label="Name"
          required
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
        />
        <Entitlements chosen={entitled} change={setEntitled} />
      </DialogForm>
    </Modal>
  );
}
