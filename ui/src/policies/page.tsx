import "../cluster/cluster.css";
import "./policies.css";
import { Badge, Group, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Permissions } from "../access/permissions";
import { useAdmin } from "../access/rights";
import { familiesQuery, type Policy, policyQuery } from "../api/offers";
import { clustersQuery } from "../api/queries";
import { MiniList } from "../clusters/minilist";
import type { Library } from "../editor/calls";
import { libraryName } from "../editor/librarykinds";
import { CopyButton } from "../kit/copy";
import { FactList } from "../kit/factlist";
import { ObjectActions, ObjectHead, ObjectPage } from "../kit/objectpage";
import { type ObjectTab, ObjectTabs } from "../kit/objecttabs";
import { Scroller } from "../kit/scroller";
import { pretty } from "../lib/json";
import { exactly } from "../lib/time";
import { useDeletePolicy } from "./calls";
import { Compliances } from "./compliance";
import { Rules } from "./rules";
import type { PolicyTab } from "./search";

export function PolicyPage() {
  const { id } = useParams({ from: "/compute/policies/$id" });
  return <OfPolicy key={id} id={id} />;
}

function OfPolicy({ id }: { id: string }) {
  const { tab } = useSearch({ from: "/compute/policies/$id" });
  const navigate = useNavigate({ from: "/compute/policies/$id" });
  const asked = useQuery({ ...policyQuery(id), staleTime: 5000 });
  const clusters = useQuery(clustersQuery).data ?? [];
  const admin = useAdmin();
  const open = (next: PolicyTab | undefined) => void navigate({ search: next === undefined ? {} : { tab: next } });
  const tabs = (policy: Policy, gone: boolean): ObjectTab<PolicyTab>[] => [
    {
      tab: "rules",
      label: "Rules",
      content: (
        <>
          <Rules definition={policy.definition} />
          <Libraries libraries={(policy.libraries ?? []) as Library[]} />
        </>
      ),
    },
    {
      tab: "json",
      label: "JSON",
      content: (
        <>
          <Group justify="flex-end">
            <CopyButton text={pretty(policy.definition)} />
          </Group>
          <Scroller className="code" label="The definition as JSON">
            {pretty(policy.definition)}
          </Scroller>
        </>
      ),
    },
    {
      tab: "clusters",
      label: "Clusters",
      content:
        admin && !gone ? (
          <Compliances policyId={id} />
        ) : (
          <>
            <MiniList
              clusters={clusters.filter((each) => each.policy_id === id)}
              none="No cluster that you can see uses this policy."
            />
            {!gone && <Text c="dimmed">Administrators also see which clusters comply.</Text>}
          </>
        ),
    },
    {
      tab: "permissions",
      label: "Permissions",
      content: <Permissions on={{ of: "cluster-policies", id }} owner={undefined} manage={admin && !gone} />,
    },
  ];
  return (
    <ObjectPage
      noun="policy"
      query={asked}
      title={asked.data?.name ?? id}
      back={{ tab: "policies", label: "Policies" }}
    >
      {(policy, gone) => (
        <>
          <Header policy={policy} admin={admin} gone={gone} />
          <ObjectTabs label="About the policy" tabs={tabs(policy, gone)} chosen={tab} open={open} />
        </>
      )}
    </ObjectPage>
  );
}

function Libraries({ libraries }: { libraries: Library[] }) {
  if (libraries.length === 0) return null;
  return (
    <section aria-label="Libraries">
      <Title order={2} size="h6">
        Libraries of its clusters
      </Title>
      <ul className="names">
        {libraries.map((each) => (
          <li key={JSON.stringify(each)}>{libraryName(each)}</li>
        ))}
      </ul>
    </section>
  );
}

function Header({ policy, admin, gone }: { policy: Policy; admin: boolean; gone: boolean }) {
  const id = policy.policy_id;
  const navigate = useNavigate();
  const { busy, remove } = useDeletePolicy();
  const why = admin ? undefined : "Only administrators can change policies";
  const actions = !gone && (
    <ObjectActions
      why={why}
      create={{ policy: id }}
      edit={() => void navigate({ to: "/compute/policies/$id/edit", params: { id } })}
      clone={() => void navigate({ to: "/compute/policies/create", search: { clone: id } })}
      remove={() => remove(id, policy.name)}
      removing={busy !== ""}
      tab="policies"
    />
  );
  const badge = policy.is_default && (
    <Badge variant="default" radius="sm" tt="none" fw={500}>
      default
    </Badge>
  );
  return (
    <ObjectHead name={policy.name} topic="policies" beside={badge} actions={actions} said={policy.description}>
      <Facts policy={policy} />
    </ObjectHead>
  );
}

function Facts({ policy }: { policy: Policy }) {
  const families = useQuery(familiesQuery).data;
  const family = families?.find((each) => each.policy_family_id === policy.policy_family_id)?.name;
  const facts: [string, string | null | undefined][] = [
    ["Family", family ?? policy.policy_family_id ?? "none (custom definition)"],
    ["Overrides", policy.policy_family_id ? String(keysOf(policy.policy_family_definition_overrides)) : undefined],
    [
      "Clusters per user",
      policy.max_clusters_per_user == null ? "no limit" : `at most ${policy.max_clusters_per_user}`,
    ],
    ["Creator", policy.creator_user_name],
    ["Created", policy.created_at_timestamp ? exactly(policy.created_at_timestamp) : undefined],
  ];
  return <FactList facts={facts} id={policy.policy_id} />;
}

function keysOf(text: string | null | undefined): number {
  try {
    return Object.keys(JSON.parse(text || "{}") as object).length;
  } catch {
    return 0;
  }
}
