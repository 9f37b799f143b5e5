import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { confirm } from "../kit/confirm";
import { Refused } from "../kit/refused";
import { ago, exactly, useNow } from "../lib/time";
import { LIFETIME, Lifetime, Secret } from "./secret";

const secretsQuery = (principal: string) =>
  queryOptions({
    queryKey: ["scim", "secrets", principal],
    queryFn: async () => {
      const path = { service_principal_id: principal };
      const asked = api.GET("/api/2.0/accounts/servicePrincipals/{service_principal_id}/credentials/secrets", {
        params: { path },
      });
      return (await body(asked)).secrets ?? [];
    },
  });

const SHOWN = 12; // characters of an id
const MINUTE = 60_000;

/** The OAuth secrets with which programs get access tokens as a service principal; `principal` is its id. */
export function ClientSecrets({ principal }: { principal: string }) {
  const queries = useQueryClient();
  const asked = useQuery(secretsQuery(principal));
  const now = useNow(MINUTE);
  const [lifetime, setLifetime] = useState(LIFETIME);
  const path = { service_principal_id: principal };
  const onSettled = () => queries.invalidateQueries({ queryKey: secretsQuery(principal).queryKey });
  const creating = useMutation({
    mutationFn: async () => {
      const given = { ...path, lifetime: `${lifetime}s` };
      const route = "/api/2.0/accounts/servicePrincipals/{service_principal_id}/credentials/secrets";
      return (await body(api.POST(route, { params: { path }, body: given }))).secret;
    },
    onSettled,
  });
  const removing = useMutation({
    mutationFn: async (id: string) => {
      const route = "/api/2.0/accounts/servicePrincipals/{service_principal_id}/credentials/secrets/{secret_id}";
      await body(api.DELETE(route, { params: { path: { ...path, secret_id: id } } }));
    },
    onSettled,
  });
  const made = creating.data ?? "";
  const wrong = creating.error ?? removing.error ?? asked.error;
  const remove = async (id: string) => {
    const consequence = "Programs can no longer get access tokens with it, and their current tokens stop working.";
    if (await confirm({ title: "Delete this OAuth secret?", consequence, action: "Delete the secret" }))
      removing.mutate(id);
  };
  return (
    <Stack gap="sm" component="section" aria-label="OAuth secrets" mt="md">
      <Title order={3} size="h6">
        OAuth secrets
      </Title>
      {made !== "" && <Secret text={made} what="The new secret. Use the application id as the client id." />}
      {asked.data?.length === 0 && <Text c="dimmed">No secrets yet. A program uses a client secret to log in.</Text>}
      <ul className="secrets">
        {(asked.data ?? []).map((each) => (
          <li key={each.id}>
            <span>
              <b className="mono" title={each.id}>
                {each.id.slice(0, SHOWN)}
              </b>{" "}
              <span className="soft" title={exactly(Date.parse(each.create_time))}>
                created {ago(Date.parse(each.create_time), now)}
              </span>
              <span className="soft">
                , <span className="nowrap">expires {each.expire_time.slice(0, 10)}</span>
              </span>
            </span>
            <Button
              variant="subtle"
              color="gray"
              loading={removing.isPending && removing.variables === each.id}
              aria-label={`Delete the secret ${each.id.slice(0, SHOWN)}`}
              onClick={() => void remove(each.id)}
            >
              Delete
            </Button>
          </li>
        ))}
      </ul>
      <Refused text={wrong ? words(wrong) : ""} />
      <Group gap="xs" align="flex-end">
        <Lifetime value={lifetime} change={setLifetime} limited />
        <Button variant="default" loading={creating.isPending} onClick={() => creating.mutate()}>
          Create a secret
        </Button>
      </Group>
    </Stack>
  );
}
