import { Button, Group, Text } from "@mantine/core";
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../api/client";
import { Icon } from "../kit/icons";
import { More } from "../kit/more";
import { Reading } from "../kit/reading";
import { count } from "../lib/sizes";
import { Find } from "./parts";
import type { AdminProps } from "./search";
import { CreateToken, makesForOthers } from "./secret";
import { type Token, Tokens } from "./tokentable";

const STEP = 200; // rows that are drawn at once

const allTokensQuery = queryOptions({
  queryKey: ["tokens", "all"],
  queryFn: async () => {
    const found = (await body(api.GET("/api/2.0/token-management/tokens"))).token_infos ?? [];
    return found.map((each): Token => ({ ...each, owner: each.owner_username }));
  },
});

/** Everybody's tokens. */
export default function AllTokens({ search, change }: AdminProps) {
  const asked = useQuery(allTokensQuery);
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  const [most, setMost] = useState(STEP);
  const again = () => void queries.invalidateQueries({ queryKey: ["tokens"] });
  const wanted = (search.q ?? "").toLowerCase();
  const fits = (asked.data ?? []).filter((each) =>
    [each.comment, each.owner, each.token_id].some((text) => text?.toLowerCase().includes(wanted)),
  );
  return (
    <>
      <Group justify="space-between" gap="xs">
        <Find label="Search by comment or owner" text={search.q ?? ""} change={(q) => change({ q })} />
        {makesForOthers() && (
          <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
            Create a token
          </Button>
        )}
      </Group>
      {asked.data === undefined ? (
        <Reading query={asked} what="Reading the tokens" />
      ) : (
        <>
          <Text size="sm" c="dimmed">
            {count(fits.length, "token")}. A token has all permissions of its owner.
          </Text>
          <Tokens
            tokens={fits.slice(0, most)}
            owners
            revoke={async ({ token_id }) => {
              const params = { path: { token_id } };
              await body(api.DELETE("/api/2.0/token-management/tokens/{token_id}", { params }));
              again();
            }}
          />
          {fits.length > most && <More what="More tokens" loading={false} load={() => setMost(most + STEP)} />}
        </>
      )}
      {creating && <CreateToken whom="" close={() => setCreating(false)} made={again} />}
    </>
  );
}
