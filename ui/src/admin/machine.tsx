import { Alert, Text, Title } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import { More } from "../kit/more";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { bytes, count } from "../lib/sizes";
import { ago, exactly, useNow } from "../lib/time";

type Machine = components["schemas"]["MachineView"];
type Node = components["schemas"]["MachineNode"];
type Provider = components["schemas"]["ProviderView"];

const POLL_MS = 5000;
const MINUTE = 60_000;
const MIB = 2 ** 20;
const STEP = 200; // rows that are drawn at once

const machineQuery = queryOptions({
  queryKey: ["machine"],
  queryFn: () => body(api.GET("/api/2.1/machine")),
  refetchInterval: POLL_MS,
});

interface Part {
  key: string;
  name: string;
  kind: "cluster" | "pool" | "other";
  value: number;
}

/** Nodes of one cluster stay together, its driver first. */
function ordered(nodes: Node[]): Node[] {
  const taken = new Map<string, Node[]>();
  for (const node of nodes) {
    const key = node.cluster_id || node.instance_id;
    taken.set(key, [...(taken.get(key) ?? []), node]);
  }
  const works = (node: Node) => Number(node.role.toLowerCase() === "worker");
  return [...taken.values()].flatMap((each) => each.sort((one, other) => works(one) - works(other)));
}

/** Who holds how much: a cluster with all of its nodes is one part. */
function parts(nodes: Node[], of: (node: Node) => number): Part[] {
  const found = new Map<string, Part>();
  for (const node of nodes) {
    const kind = node.cluster_id ? "cluster" : node.instance_pool_id ? "pool" : "other";
    const key = node.cluster_id || node.instance_pool_id || "other";
    const name =
      node.cluster_name || node.cluster_id || node.instance_pool_name || node.instance_pool_id || "being terminated";
    const part = found.get(key) ?? { key, name, kind, value: 0 };
    part.value += of(node);
    found.set(key, part);
  }
  return [...found.values()].sort((one, other) => other.value - one.value);
}

export default function MachineTab() {
  const asked = useQuery(machineQuery);
  if (asked.data === undefined) return <Reading query={asked} what="Reading the machine's capacity" />;
  return <Shown machine={asked.data} />;
}

function Shown({ machine }: { machine: Machine }) {
  const { disk, nodes, providers } = machine;
  const several = providers.length > 1;
  return (
    <>
      <Text size="sm" c="dimmed">
        {several ? `${count(providers.length, "provider")}` : `Provider ${machine.provider}`},{" "}
        {count(machine.servers, "server")}, {count(nodes.length, "node")}.
      </Text>
      {providers.map((each) => (
        <Of
          key={each.name}
          provider={each}
          titled={several}
          nodes={nodes.filter((node) => node.provider === each.name)}
        />
      ))}
      {several && (
        <Title order={2} size="h5" mt="xs">
          Storage
        </Title>
      )}
      <div className="meters">
        <Meter what="Disk" total={disk.total} left={disk.free} text={bytes} parts={[]} />
        {disk.inodes_total > 0 && (
          <Meter what="Inodes" total={disk.inodes_total} left={disk.inodes_free} text={String} parts={[]} />
        )}
        <Meter
          what="The workspace's files"
          total={disk.files_limit}
          left={Math.max(0, disk.files_limit - disk.files_used)}
          text={bytes}
          parts={[]}
        />
      </div>
      <Title order={2} size="h5" mt="xs">
        Nodes
      </Title>
      {nodes.length === 0 ? <Text>No nodes are running.</Text> : <Nodes nodes={ordered(nodes)} several={several} />}
    </>
  );
}

/** One provider: its room, and what is unusual about it. */
function Of({ provider, titled, nodes }: { provider: Provider; titled: boolean; nodes: Node[] }) {
  const { room, hidden_node_types: hidden } = provider;
  return (
    <>
      {titled && (
        <Title order={2} size="h5" mt="xs">
          Provider {provider.name}
        </Title>
      )}
      {provider.trouble && (
        <Alert variant="default" className="notice bad" title={`Provider ${provider.name} does not answer`}>
          {provider.trouble}. Its nodes keep running, but none is launched or terminated until it answers.
        </Alert>
      )}
      {!provider.configured ? (
        <Text>
          This provider is no longer in the settings. Its {count(provider.nodes, "node")} keep running until they are no
          longer needed, and none is replaced.
        </Text>
      ) : room ? (
        <div className="meters">
          <Meter
            what="Cores"
            total={room.cores_total}
            left={room.cores_left}
            text={(value) => String(Math.round(value * 10) / 10)}
            parts={parts(nodes, (node) => node.cores)}
          />
          <Meter
            what="Memory"
            total={room.memory_mb_total}
            left={room.memory_mb_left}
            text={(value) => bytes(value * MIB)}
            parts={parts(nodes, (node) => node.memory_mb)}
          />
          {provider.name === "local" && (
            <Text size="sm" c="dimmed">
              These totals are larger than the machine: nodes seldom use all that they are promised. The settings
              cpu_overcommit and memory_overcommit say how many times its cores and memory are offered.
            </Text>
          )}
        </div>
      ) : (
        <Text>This provider does not report its capacity.</Text>
      )}
      {hidden.length > 0 && (
        <Text size="sm" c="dimmed">
          {count(hidden.length, "node type")} of this provider are hidden, because a provider listed before it offers
          them too:{" "}
          {hidden
            .slice(0, 5)
            .map((each) => `${each.node_type_id} (${each.provider})`)
            .join(", ")}
          {hidden.length > 5 && ", ..."}
        </Text>
      )}
    </>
  );
}

function Meter({
  what,
  total,
  left,
  text,
  parts: of,
}: {
  what: string;
  total: number;
  left: number;
  text: (value: number) => string;
  parts: Part[];
}) {
  const used = Math.max(0, total - left);
  const shown = of.length > 0 ? of : [{ key: "used", name: "used", kind: "other" as const, value: used }];
  const percent = (value: number) => `${Math.min(100, (value / Math.max(total, 1)) * 100)}%`;
  return (
    <div className="meter">
      <p>
        <b>{what}</b>{" "}
        <span className="soft">
          {text(used)} of {text(total)} used
        </span>
      </p>
      <svg
        className="bar"
        role="img"
        aria-label={`${what}: ${text(used)} of ${text(total)} used`}
        width="100%"
        height={12}
      >
        {shown.map((part, at) => (
          <rect
            key={part.key}
            className={`${part.kind}-part`}
            x={percent(shown.slice(0, at).reduce((sum, each) => sum + each.value, 0))}
            width={percent(part.value)}
            height={12}
          >
            <title>{`${part.name}: ${text(part.value)}`}</title>
          </rect>
        ))}
      </svg>
      <ul className="legend">
        {of.slice(0, 5).map((part) => (
          <li key={part.key} className={`${part.kind}-part`}>
            {part.name} <span className="soft">{text(part.value)}</span>
          </li>
        ))}
        {of.length > 5 && <li className="soft">and {of.length - 5} more</li>}
      </ul>
    </div>
  );
}

function Nodes({ nodes, several }: { nodes: Node[]; several: boolean }) {
  const now = useNow(MINUTE);
  const [most, setMost] = useState(STEP);
  return (
    <>
      <PlainTable heads={["Used by", "Role", "Node type", "State", "Since"]}>
        {nodes.slice(0, most).map((each) => (
          <tr key={each.instance_id}>
            <td data-label="Used by">
              <Taker node={each} />
            </td>
            <td data-label="Role">{each.cluster_id ? each.role.toLowerCase() : <span className="soft">idle</span>}</td>
            <td data-label="Node type">
              <span>
                {each.node_type_id}
                <span className="under">
                  {count(each.cores, "core")}, {bytes(each.memory_mb * MIB)}
                  {each.gpus > 0 && `, ${count(each.gpus, "GPU")}`}
                  {each.spot && ", spot"}
                  {several && `, provider ${each.provider}`}
                </span>
              </span>
            </td>
            <td data-label="State">
              <span>
                {each.state}
                <span className="under mono">{each.instance_id}</span>
              </span>
            </td>
            <td data-label="Since" title={exactly(each.created_ms)}>
              {ago(each.created_ms, now)}
            </td>
          </tr>
        ))}
      </PlainTable>
      {nodes.length > most && <More what="More nodes" loading={false} load={() => setMost(most + STEP)} />}
    </>
  );
}

function Taker({ node }: { node: Node }) {
  if (node.cluster_id)
    return (
      <span>
        <Link className="link" to="/compute/clusters/$id" params={{ id: node.cluster_id }}>
          {node.cluster_name || node.cluster_id}
        </Link>
        <span className="under">
          {node.creator_user_name}
          {node.instance_pool_name && `, from the pool ${node.instance_pool_name}`}
        </span>
      </span>
    );
  if (node.instance_pool_id) return <b>Pool {node.instance_pool_name || node.instance_pool_id}</b>;
  return <span className="soft">being ended</span>;
}
