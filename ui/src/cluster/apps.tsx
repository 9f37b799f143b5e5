import { Anchor, Button, NativeSelect, NumberInput, Text, TextInput } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { POLL_MS } from "../api/live";
import type { components } from "../api/schema";
import { remote } from "../api/session";
import { confirm } from "../kit/confirm";
import { LineForm } from "../kit/forms";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import type { TabProps } from "./tab";

type Port = components["schemas"]["PortView"];

const portsQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "ports"],
    queryFn: async () =>
      (await body(api.GET("/v1/clusters/{cluster_id}/proxy", { params: { path: { cluster_id: id } } }))).data
        .port_mappings,
  });

const LOOKS = { active: "good", pending: "wait", failed: "bad", inactive: "off" };

export default function Apps({ cluster, may }: TabProps) {
  const id = cluster.cluster_id;
  const asked = useQuery({ ...portsQuery(id), refetchInterval: POLL_MS }); // their states have no events
  const queries = useQueryClient();
  const again = () => queries.invalidateQueries({ queryKey: ["cluster", id, "ports"] });
  const removing = useMutation({
    mutationFn: ({ id: port_id }: Port) => {
      const path = { cluster_id: id, port_id };
      return body(api.DELETE("/v1/clusters/{cluster_id}/proxy/ports/{port_id}", { params: { path } }));
    },
    onSuccess: again,
    onError: (error) => toast(words(error), { failed: true }),
  });
  if (asked.data === undefined) return <Reading query={asked} what="Reading the port mappings" rows={3} />;
  const remove = async (port: Port) => {
    const name = port.description || `port ${port.internal_port}`;
    const consequence = "The port is no longer reachable from outside. The program keeps running.";
    if (await confirm({ title: `Remove ${name}?`, consequence, action: "Remove" })) removing.mutate(port);
  };
  return (
    <>
      <Text size="sm" c="dimmed">
        Programs on the driver, such as JupyterLab or TensorBoard, that are reachable through this server.
      </Text>
      {may("CAN_MANAGE") && <Add id={id} added={again} />}
      {asked.data.length === 0 ? (
        <Text className="nothing">No apps yet. Add a port to reach a program on the driver.</Text>
      ) : (
        <PlainTable heads={["App", "Port", "Address", "Status"]} unseen="Actions">
          {asked.data.map((port) => (
            <tr key={port.id}>
              <td data-label="App">{port.description || "No description"}</td>
              <td data-label="Port">
                <span>
                  {port.internal_port} <span className="soft">{port.protocol}</span>
                </span>
              </td>
              <td data-label="Address" className="mono">
                {port.protocol === "http" && port.status === "active" ? (
                  <Anchor href={pathOf(port.url)} target="_blank" rel="noopener" size="sm">
                    {pathOf(port.url)}
                  </Anchor>
                ) : (
                  port.url
                )}
              </td>
              <td data-label="Status">
                <span className={`word ${LOOKS[port.status]}`}>{port.status}</span>
                {port.status_details && <div className="soft">{port.status_details}</div>}
              </td>
              <td className="end">
                {may("CAN_MANAGE") && (
                  <Button
                    variant="subtle"
                    color="gray"
                    loading={removing.isPending && removing.variables.id === port.id}
                    aria-label={`Remove port ${port.internal_port}`}
                    onClick={() => void remove(port)}
                  >
                    Remove
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
    </>
  );
}

/** An http mapping is a path of this server, however the server calls itself. */
function pathOf(url: string): string {
  try {
    return remote() === "" ? new URL(url, location.origin).pathname : url;
  } catch {
    return url;
  }
}

function Add({ id, added }: { id: string; added: () => Promise<void> }) {
  const [port, setPort] = useState<number | string>("");
  const [protocol, setProtocol] = useState<"http" | "tcp">("http");
  const [description, setDescription] = useState("");
  const add = async () => {
    await body(
      api.POST("/v1/clusters/{cluster_id}/proxy/ports", {
        params: { path: { cluster_id: id } },
        body: { internal_port: Number(port), protocol, description },
      } as never),
    );
    setPort("");
    setDescription("");
    await added();
  };
  return (
    <LineForm label="Add an app" action="Add" ready={port !== ""} submit={add}>
      <NumberInput
        size="xs"
        label="Port on the driver"
        placeholder="8888"
        hideControls
        allowDecimal={false}
        value={port}
        onChange={setPort}
      />
      <NativeSelect
        size="xs"
        label="Protocol"
        data={["http", "tcp"]}
        value={protocol}
        onChange={(event) => setProtocol(event.currentTarget.value as "http" | "tcp")}
      />
      <TextInput
        className="wide"
        label="Description"
        placeholder="JupyterLab"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </LineForm>
  );
}
