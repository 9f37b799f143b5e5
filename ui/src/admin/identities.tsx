import { Button, Group, Text, UnstyledButton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CopyIcon } from "../kit/copy";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { count } from "../lib/sizes";
import { AddIdentity } from "./addidentity";
import { EditIdentity } from "./editidentity";
import { Find, Names } from "./parts";
import { directGroups, ENTITLEMENTS, type Identity, identitiesQuery, type Kind, nameOf } from "./scim";
import type { AdminProps } from "./search";

const WORDS: Record<Kind, { one: string; find: string; add: string; none: string }> = {
  Users: {
    one: "user",
    find: "Search by name",
    add: "Add a user",
    none: "No users match.",
  },
  ServicePrincipals: {
    one: "service principal",
    find: "Search by name or application id",
    add: "Add a service principal",
    none: "No service principals yet. A service principal is an identity for a program, such as a scheduler.",
  },
};
const label = (value: string) => ENTITLEMENTS.find((each) => each.value === value)?.label ?? value;

export const Users = (props: AdminProps) => <Identities kind="Users" {...props} />;
export const ServicePrincipals = (props: AdminProps) => <Identities kind="ServicePrincipals" {...props} />;

function Identities({ kind, search, change }: AdminProps & { kind: Kind }) {
  const asked = useInfiniteQuery(identitiesQuery(kind, search.q ?? ""));
  const [adding, setAdding] = useState(false);
  const found = asked.data?.pages.flatMap((page) => page.Resources ?? []);
  const words = WORDS[kind];
  const opened = found?.find((each) => each.id === search.open);
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Find label={words.find} text={search.q ?? ""} change={(q) => change({ q })} />
        <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setAdding(true)}>
          {words.add}
        </Button>
      </Group>
      {found === undefined ? (
        <Reading query={asked} what={`Reading the ${words.one}s`} />
      ) : found.length === 0 ? (
        <Text className="nothing">{words.none}</Text>
      ) : (
        <>
          <Text size="sm" c="dimmed">
            {count(asked.data?.pages[0]?.totalResults ?? 0, words.one)}
          </Text>
          <Rows kind={kind} found={found} open={(id) => change({ open: id })} />
          {asked.hasNextPage && (
            <More what="More" loading={asked.isFetchingNextPage} load={() => void asked.fetchNextPage()} />
          )}
        </>
      )}
      {adding && <AddIdentity kind={kind} close={() => setAdding(false)} />}
      {opened !== undefined && (
        <EditIdentity key={opened.id} kind={kind} identity={opened} close={() => change({ open: undefined })} />
      )}
    </>
  );
}

function Rows({ kind, found, open }: { kind: Kind; found: Identity[]; open: (id: string) => void }) {
  const program = kind === "ServicePrincipals";
  return (
    <PlainTable heads={["Name", ...(program ? ["Application id"] : []), "Groups", "Direct entitlements", "State"]}>
      {found.map((each) => (
        <tr key={each.id} data-off={each.active === false || undefined}>
          <td data-label="Name">
            <span>
              <UnstyledButton className="link" onClick={() => open(each.id)}>
                {nameOf(each)}
              </UnstyledButton>
              {kind === "Users" && each.displayName && <span className="under">{each.displayName}</span>}
            </span>
          </td>
          {program && (
            <td data-label="Application id" className="mono">
              <span>
                {each.applicationId} <CopyIcon text={each.applicationId ?? ""} what="Copy the application id" />
              </span>
            </td>
          )}
          <td data-label="Groups">
            <Names names={directGroups(each).map((group) => group.display ?? group.value)} />
          </td>
          <td data-label="Entitlements">
            <Names names={(each.entitlements ?? []).map(({ value }) => label(value))} />
          </td>
          <td data-label="State">
            <span className={each.active === false ? "word off" : "word good"}>
              {each.active === false ? "Deactivated" : "Active"}
            </span>
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}
