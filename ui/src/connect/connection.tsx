import "./connect.css";
import { SegmentedControl, Text, Title } from "@mantine/core";
import { queryOptions } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, body } from "../api/client";
import { remote, session } from "../api/session";
import { CopyButton, CopyIcon } from "../kit/copy";
import { Scroller } from "../kit/scroller";
import { type Address, addressOf, jdbcUrl } from "./address";
import { clientsOf } from "./clients";

/** The workspace's id, as paths of clusters have it. A text: it may have more digits than a number of JavaScript. */
export const workspaceIdQuery = queryOptions({
  queryKey: ["workspace-id"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async () => {
    const path = "/api/2.1/unity-catalog/current-metastore-assignment";
    const text = (await body(api.GET(path, { parseAs: "text" }))) as unknown as string;
    return /"workspace_id":\s*"?(\d+)/.exec(text)?.[1] ?? "";
  },
});

/** The origin by which clients reach the workspace; undefined until it is known. */
function useOrigin(): string | undefined {
  const [origin, setOrigin] = useState<string>();
  useEffect(() => {
    let shown = true;
    const usual = () => remote() || location.origin;
    session.get().then(
      (found) => shown && setOrigin(found.external_url || usual()),
      () => shown && setOrigin(usual()), // the server is away
    );
    return () => {
      shown = false;
    };
  }, []);
  return origin;
}

/** How SQL clients connect: what to type, and lines to copy. `path`: the HTTP path of the cluster or warehouse. */
export function Connection({ path }: { path: string }) {
  const origin = useOrigin();
  const [chosen, setChosen] = useState("Python");
  if (origin === undefined) return null;
  const address = addressOf(origin, path);
  const clients = clientsOf(address);
  const client = clients.find((each) => each.name === chosen);
  return (
    <>
      <Details address={address} />
      <section aria-label="Clients" className="clients">
        <Title order={2} size="h6">
          Connect from
        </Title>
        <div className="choices">
          <SegmentedControl
            size="xs"
            aria-label="Client"
            data={clients.map((each) => each.name)}
            value={chosen}
            onChange={setChosen}
          />
          {client && client.text !== "" && <CopyButton text={client.text} />}
        </div>
        <Text size="sm" c="dimmed">
          {client?.steps}
        </Text>
        {client && client.text !== "" && (
          <Scroller className="code" label={`Lines for ${client.name}`}>
            {client.text}
          </Scroller>
        )}
      </section>
    </>
  );
}

function Details({ address }: { address: Address }) {
  const rows: [name: string, value: string, copied: boolean][] = [
    ["Server hostname", address.host, true],
    ["Port", String(address.port), true],
    ["Protocol", address.tls ? "HTTPS" : "HTTP", false],
    ["HTTP path", address.path, true],
    ["JDBC URL", jdbcUrl(address), true],
  ];
  return (
    <dl className="rows connection" aria-label="Connection details">
      {rows.map(([name, value, copied]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <span className="mono">{value}</span> {copied && <CopyIcon text={value} what={`Copy the ${name}`} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}
