import { Button, Group, Modal, NativeSelect, PasswordInput, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { queryOptions, useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { destinationsQuery } from "../api/destinations";
import type { components } from "../api/schema";
import { confirm } from "../kit/confirm";
import { CopyButton } from "../kit/copy";
import { DialogForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { ago, useNow } from "../lib/time";

type Destination = components["schemas"]["Destination"];
type Kind = "generic_webhook" | "slack" | "microsoft_teams" | "pagerduty" | "email";

const MINUTE = 60_000;
const POLL_MS = 15_000;
const KEY = destinationsQuery.queryKey;
const KINDS = [
  { value: "generic_webhook", label: "Webhook" },
  { value: "slack", label: "Slack" },
  { value: "microsoft_teams", label: "Microsoft Teams" },
  { value: "pagerduty", label: "PagerDuty" },
  { value: "email", label: "E-mail" },
];
const LABELS = {
  WEBHOOK: "Webhook",
  SLACK: "Slack",
  MICROSOFT_TEAMS: "Microsoft Teams",
  PAGERDUTY: "PagerDuty",
  EMAIL: "E-mail",
};

const oneQuery = (id: string) =>
  queryOptions({
    queryKey: [...KEY, id],
    queryFn: async () => await body(api.GET("/api/2.0/notification-destinations/{id}", { params: { path: { id } } })),
    refetchInterval: POLL_MS,
  });

/** Where jobs may send notifications to, and how that goes. */
export default function Destinations() {
  const asked = useQuery(destinationsQuery);
  const all = useQueries({ queries: (asked.data ?? []).map((each) => oneQuery(each.id)) });
  const queries = useQueryClient();
  const now = useNow(MINUTE);
  const [creating, setCreating] = useState(false);
  const changed = () => queries.invalidateQueries({ queryKey: KEY });
  const deleting = useMutation({
    mutationFn: async (id: string) => {
      await body(api.DELETE("/api/2.0/notification-destinations/{id}", { params: { path: { id } } }));
    },
    onSettled: changed,
    onError: (error) => toast(words(error), { failed: true }),
  });
  const remove = async ({ id, display_name: name }: Destination) => {
    const consequence = "Jobs that name it no longer send notifications there.";
    if (await confirm({ title: `Delete ${name}?`, consequence, action: "Delete" })) deleting.mutate(id);
  };
  if (asked.data === undefined) return <Reading query={asked} what="Reading the destinations" />;
  return (
    <>
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          Jobs send notifications to these destinations.
        </Text>
        <Button onClick={() => setCreating(true)}>Create a destination</Button>
      </Group>
      {asked.data.length === 0 ? (
        <Text className="nothing">No destinations yet.</Text>
      ) : (
        <PlainTable heads={["Name", "Kind", "Delivery"]} unseen="Actions">
          {asked.data.map((each, at) => (
            <tr key={each.id}>
              <td data-label="Name">
                <span>
                  <b>{each.display_name}</b>
                  <span className="under mono">{each.id}</span>
                </span>
              </td>
              <td data-label="Kind">{LABELS[each.destination_type]}</td>
              <td data-label="Delivery">
                <State delivery={all[at]?.data?.delivery} now={now} />
              </td>
              <td className="end">
                <Button
                  variant="subtle"
                  color="gray"
                  loading={deleting.isPending && deleting.variables === each.id}
                  aria-label={`Delete ${each.display_name}`}
                  onClick={() => void remove(each)}
                >
                  Delete
                </Button>
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
      {creating && <Create close={() => setCreating(false)} made={() => void changed()} />}
    </>
  );
}

function State({ delivery, now }: { delivery: Destination["delivery"]; now: number }) {
  if (!delivery) return <span className="soft">-</span>;
  const { last_success_time: good, last_failure_time: bad, last_failure: why, waiting = 0 } = delivery;
  const failing = (bad ?? 0) > (good ?? 0);
  return (
    <span>
      {failing ? (
        <span className="word bad">Failing</span>
      ) : (
        <span>{good ? `Delivered ${ago(good, now)}` : "Nothing sent yet"}</span>
      )}
      {failing && <span className="under said">{why}</span>}
      {waiting > 0 && <span className="under">{waiting} waiting</span>}
    </span>
  );
}

function Create({ close, made }: { close: () => void; made: () => void }) {
  const [kind, setKind] = useState<Kind>("generic_webhook");
  const [given, setGiven] = useState({ name: "", url: "", username: "", password: "", addresses: "", key: "" });
  const [secret, setSecret] = useState("");
  const set = (name: keyof typeof given) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget;
    setGiven((old) => ({ ...old, [name]: value }));
  };
  const config = () => {
    if (kind === "email") return { email: { addresses: given.addresses.split(/[\s,]+/).filter(Boolean) } };
    if (kind === "slack" || kind === "microsoft_teams") return { [kind]: { url: given.url.trim() } };
    if (kind === "pagerduty") return { pagerduty: { integration_key: given.key.trim() } };
    const { username, password } = given;
    return { generic_webhook: { url: given.url.trim(), ...(username && { username, password }) } };
  };
  const create = async () => {
    const request = { display_name: given.name.trim(), config: config() };
    const answer = await body(api.POST("/api/2.0/notification-destinations", { body: request }));
    made();
    const signing = answer.config?.generic_webhook?.signing_secret;
    if (signing) setSecret(signing);
    else close();
  };
  return (
    <Modal opened onClose={close} title="Create a destination" centered closeOnClickOutside={false}>
      {secret !== "" ? (
        <Stack gap="md">
          <Text>With this signing secret, the receiver checks that messages come from here.</Text>
          <div className="secret">
            <code>{secret}</code>
            <CopyButton text={secret} />
          </div>
          <Group justify="flex-end">
            <Button onClick={close}>Done</Button>
          </Group>
        </Stack>
      ) : (
        <DialogForm action="Create" submit={create} close={close}>
          <TextInput label="Name" required value={given.name} onChange={set("name")} data-autofocus />
          <NativeSelect
            size="xs"
            label="Kind"
            data={KINDS}
            value={kind}
            onChange={(event) => setKind(event.currentTarget.value as Kind)}
          />
          {kind === "email" ? (
            <Textarea label="Addresses" required autosize value={given.addresses} onChange={set("addresses")} />
          ) : kind === "pagerduty" ? (
            <PasswordInput
              label="Integration key"
              description="Of the service's integration with the Events API v2."
              autoComplete="new-password"
              required
              value={given.key}
              onChange={set("key")}
            />
          ) : (
            <TextInput
              label="URL"
              placeholder="https://"
              spellCheck={false}
              required
              value={given.url}
              onChange={set("url")}
            />
          )}
          {kind === "generic_webhook" && (
            <>
              <TextInput
                label="User name"
                description="For basic authentication. Can be empty."
                autoComplete="off"
                value={given.username}
                onChange={set("username")}
              />
              {given.username !== "" && (
                <PasswordInput
                  label="Password"
                  autoComplete="new-password"
                  value={given.password}
                  onChange={set("password")}
                />
              )}
            </>
          )}
        </DialogForm>
      )}
    </Modal>
  );
}
