import "../cluster/cluster.css";
import "../kit/pages.css";
import "./admin.css";
import { Button, Group, Text, Title } from "@mantine/core";
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../access/rights";
import { api, body } from "../api/client";
import { PageHead } from "../kit/help";
import { Icon } from "../kit/icons";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import { Names } from "./parts";
import { ENTITLEMENTS } from "./scim";
import { CreateToken } from "./secret";
import { Tokens } from "./tokentable";

const ownTokensQuery = queryOptions({
  queryKey: ["tokens", "own"],
  queryFn: async () => (await body(api.GET("/api/2.0/token/list"))).token_infos ?? [],
});

/** What concerns the user alone: who they are here, and their tokens. */
export function SettingsPage() {
  const me = useQuery(meQuery);
  const tokens = useQuery(ownTokensQuery);
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  useTitle("Settings");
  const again = () => void queries.invalidateQueries({ queryKey: ["tokens"] });
  const label = (value: string) => ENTITLEMENTS.find((each) => each.value === value)?.label ?? value;
  return (
    <div className="content admin">
      <PageHead title="Settings" topic="authentication" />
      {me.data !== undefined && (
        <dl className="rows">
          <div>
            <dt>You are</dt>
            <dd>{me.data.name}</dd>
          </div>
          <div>
            <dt>Your groups</dt>
            <dd>
              <Names names={[...me.data.groups].filter((each): each is string => each !== undefined)} />
            </dd>
          </div>
          <div>
            <dt>You may</dt>
            <dd>
              <Names names={me.data.entitlements.map(label)} />
            </dd>
          </div>
        </dl>
      )}
      <Group justify="space-between" gap="xs">
        <Title order={2} size="h4">
          Your tokens
        </Title>
        <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
          Create a token
        </Button>
      </Group>
      <Text size="sm" c="dimmed">
        Programs log in with a token: the SDK, the CLI, Terraform. A token has all of your permissions.
      </Text>
      {tokens.data === undefined ? (
        <Reading query={tokens} what="Reading your tokens" rows={3} />
      ) : (
        <Tokens
          tokens={tokens.data}
          owners={false}
          revoke={async ({ token_id }) => {
            await body(api.POST("/api/2.0/token/delete", { body: { token_id } }));
            again();
          }}
        />
      )}
      {creating && <CreateToken close={() => setCreating(false)} made={again} />}
    </div>
  );
}
