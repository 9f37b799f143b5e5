import { Button, Group, Modal, Radio, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, body, type Cluster, words } from "../api/client";
import { clustersQuery } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { StateWord } from "../clusters/state";
import { confirm } from "../kit/confirm";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { Refused } from "../kit/refused";
import { useSubmit } from "../kit/submit";
import { toast } from "../kit/toasts";
import { count } from "../lib/sizes";
import { type Compliance, complianceOf } from "./calls";

/** Which clusters of a policy comply with it, and what to do about the others. For administrators. */
export function Compliances({ policyId }: { policyId: string }) {
  const queries = useQueryClient();
  const clusters = useQuery(clustersQuery).data ?? [];
  const [chosen, setChosen] = useState<Compliance>();
  const key = ["policy", policyId, "compliance"];
  const versions = clusters.filter((each) => each.policy_id === policyId).map((each) => each.state);
  const asked = useQuery({
    queryKey: [...key, versions.join()], // a cluster that ends may have been changed by then
    queryFn: () => complianceOf(policyId),
    placeholderData: (old: Compliance[] | undefined) => old,
  });
  if (asked.data === undefined) return <Reading query={asked} what="Reading the clusters" rows={4} />;
  const again = () => void queries.invalidateQueries({ queryKey: key });
  const byId = new Map(clusters.map((each) => [each.cluster_id, each]));
  const wrong = asked.data.filter((each) => !each.is_compliant).length;
  if (asked.data.length === 0) return <Text c="dimmed">No cluster uses this policy.</Text>;
  return (
    <>
      <Text size="sm">
        {wrong === 0
          ? `All clusters comply (${asked.data.length}).`
          : `${wrong} of ${count(asked.data.length, "cluster")} ${wrong === 1 ? "does" : "do"} not comply.`}
      </Text>
      <PlainTable heads={["Cluster", "State", "Complies"]} unseen="Actions">
        {asked.data.map((each) => {
          const cluster = byId.get(each.cluster_id);
          return (
            <tr key={each.cluster_id}>
              <td data-label="Cluster" className="name-id">
                <Link to="/compute/clusters/$id" params={{ id: each.cluster_id }}>
                  {cluster ? nameOf(cluster) : each.cluster_id}
                </Link>
              </td>
              <td data-label="State">{cluster && <StateWord cluster={cluster} />}</td>
              <td data-label="Complies">
                <Judged found={each} />
              </td>
              <td className="end">
                {each.pending_enforcement ? (
                  <Cancel id={each.cluster_id} done={again} />
                ) : (
                  !each.is_compliant && (
                    <Button variant="default" onClick={() => setChosen(each)}>
                      Enforce…
                    </Button>
                  )
                )}
              </td>
            </tr>
          );
        })}
      </PlainTable>
      {chosen !== undefined && (
        <Enforce
          found={chosen}
          cluster={byId.get(chosen.cluster_id)}
          close={(changed) => {
            setChosen(undefined);
            if (changed) again();
          }}
        />
      )}
    </>
  );
}

function Judged({ found }: { found: Compliance }) {
  const violations = Object.entries(found.violations ?? {});
  return (
    <>
      <span className={found.is_compliant ? "word good" : "word bad"}>{found.is_compliant ? "Yes" : "No"}</span>
      {violations.map(([field, message]) => (
        <div key={field}>
          <span className="mono">{field}</span> {message}
        </div>
      ))}
      {found.pending_enforcement && (
        <div className="soft">
          Will be changed when it terminates, requested by {found.pending_enforcement.initiator_user}.
        </div>
      )}
    </>
  );
}

function Cancel({ id, done }: { id: string; done: () => void }) {
  const cancel = useMutation({
    mutationFn: () =>
      body(
        api.POST("/api/2.0/policies/clusters:cancelPendingClusterEnforcement", {
          body: { cluster_id: id, allow_missing: true },
        }),
      ),
    onSuccess: done,
    onError: (error) => toast(words(error), { failed: true }),
  });
  const ask = async () => {
    const consequence = "The cluster keeps its current configuration.";
    if (await confirm({ title: "Cancel the enforcement?", consequence, action: "Cancel the enforcement" }))
      cancel.mutate();
  };
  return (
    <Button variant="default" loading={cancel.isPending} onClick={() => void ask()}>
      Cancel enforcement
    </Button>
  );
}

interface EnforceProps {
  found: Compliance;
  cluster: Cluster | undefined;
  close: (changed: boolean) => void;
}

type Mode = "ENFORCE_IMMEDIATELY" | "WAIT_FOR_TERMINATION";

/** What would be changed, and when. */
function Enforce({ found, cluster, close }: EnforceProps) {
  const cluster_id = found.cluster_id;
  const name = cluster ? nameOf(cluster) : cluster_id;
  const runs = cluster !== undefined && cluster.state !== "TERMINATED";
  const [mode, setMode] = useState<Mode>("ENFORCE_IMMEDIATELY");
  const { busy, refused, call } = useSubmit();
  const enforce = (more: { validate_only?: boolean; enforce_mode?: Mode }) =>
    body(
      api.POST("/api/2.0/policies/clusters/enforce-compliance", {
        body: { cluster_id, enforce_mode: null, validate_only: null, ...more },
      }),
    );
  const preview = useQuery({
    queryKey: ["cluster", cluster_id, "enforcement"],
    staleTime: 0,
    gcTime: 0,
    retry: false,
    queryFn: () => enforce({ validate_only: true }),
  });
  const act = async () => {
    const done = await enforce({ enforce_mode: mode });
    const later = done.enforce_result === "DEFERRED";
    toast(later ? `${name} will be changed when it terminates.` : `${name} complies now.`);
    close(true);
  };
  return (
    <Modal opened onClose={() => close(false)} title={`Make ${name} comply`} centered size="lg">
      {preview.data ? (
        <Stack gap="md">
          <PlainTable heads={["Field", "Now", "Then"]}>
            {(preview.data.changes ?? []).map((each) => (
              <tr key={each.field}>
                <td data-label="Field" className="mono">
                  {each.field}
                </td>
                <td data-label="Now">{each.previous_value ?? <span className="soft">not set</span>}</td>
                <td data-label="Then">{each.new_value ?? <span className="soft">not set</span>}</td>
              </tr>
            ))}
          </PlainTable>
          {runs && (
            <Radio.Group label="When" value={mode} onChange={(next) => setMode(next as Mode)}>
              <Stack gap={6} pt={4}>
                <Radio
                  value="ENFORCE_IMMEDIATELY"
                  label="Now"
                  description="A running cluster restarts. Everything that runs on it is stopped."
                />
                <Radio value="WAIT_FOR_TERMINATION" label="When it terminates" description="Nothing is interrupted." />
              </Stack>
            </Radio.Group>
          )}
          <Refused text={refused} />
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={() => close(false)}>
              Cancel
            </Button>
            <Button loading={busy} onClick={() => void call(act)}>
              Enforce
            </Button>
          </Group>
        </Stack>
      ) : (
        <Reading query={preview} what="Reading what would change" rows={3} />
      )}
    </Modal>
  );
}
