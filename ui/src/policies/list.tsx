import "../pools/pools.css";
import { Badge, Menu } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useAdmin } from "../access/rights";
import { familiesQuery, type Policy, policiesQuery } from "../api/offers";
import { clustersQuery } from "../api/queries";
import { Creator } from "../kit/creator";
import { Icon } from "../kit/icons";
import { type DataColumn, FIGURES } from "../kit/listing";
import { ObjectList } from "../kit/objectlist";
import { Reading } from "../kit/reading";
import { useDeletePolicy } from "./calls";

export default function Policies() {
  const policies = useQuery({ ...policiesQuery, staleTime: 5000 });
  const families = useQuery(familiesQuery).data;
  const clusters = useQuery(clustersQuery).data;
  const admin = useAdmin();
  const { busy, remove } = useDeletePolicy();
  if (policies.data === undefined) return <Reading query={policies} what="Reading the policies" />;
  const uses = new Map<string, number>();
  for (const { policy_id } of clusters ?? []) if (policy_id) uses.set(policy_id, (uses.get(policy_id) ?? 0) + 1);
  const familyName = (id: string) => families?.find((each) => each.policy_family_id === id)?.name ?? id;
  return (
    <ObjectList
      label="Policies"
      objects={policies.data}
      idOf={(each) => each.policy_id}
      nameOf={(each) => each.name}
      textsOf={(each) => [each.name, each.policy_id, each.description ?? ""]}
      columns={columns(uses, familyName)}
      busy={busy}
      menu={(each) => <Items policy={each} admin={admin} remove={() => void remove(each.policy_id, each.name)} />}
      none={policies.data.length === 0 ? "No policies that you can use." : "No policies match."}
    />
  );
}

const columns = (uses: Map<string, number>, familyName: (id: string) => string): DataColumn<Policy>[] => [
  {
    id: "name",
    size: 180,
    header: "Name",
    accessorFn: (each) => each.name,
    cell: ({ row: { original: each } }) => (
      <span className="name-id">
        <Link to="/compute/policies/$id" params={{ id: each.policy_id }}>
          {each.name}
        </Link>
        {each.is_default && (
          <Badge variant="default" size="xs" radius="sm" tt="none" ml={6} fw={500}>
            default
          </Badge>
        )}
        <span className="id">{each.policy_id}</span>
      </span>
    ),
  },
  { id: "description", size: 180, header: "Description", accessorFn: (each) => each.description ?? "" },
  {
    id: "family",
    size: 100,
    header: "Family",
    accessorFn: (each) => (each.policy_family_id ? familyName(each.policy_family_id) : ""),
    cell: ({ row: { original: each } }) =>
      each.policy_family_id ? familyName(each.policy_family_id) : <span className="soft">custom</span>,
  },
  {
    id: "clusters",
    size: 110,
    header: "Clusters",
    meta: FIGURES,
    accessorFn: (each) => uses.get(each.policy_id) ?? 0,
    cell: ({ row: { original: each } }) => (
      <span>
        {uses.get(each.policy_id) ?? 0}{" "}
        <Link
          className="inlink"
          to="/compute/create"
          search={{ policy: each.policy_id }}
          aria-label={`Create compute with ${each.name}`}
        >
          Create
        </Link>
      </span>
    ),
  },
  {
    id: "most",
    size: 90,
    header: "Max per user",
    meta: FIGURES,
    accessorFn: (each) => each.max_clusters_per_user ?? Number.POSITIVE_INFINITY,
    cell: ({ row: { original: each } }) => each.max_clusters_per_user ?? "no limit",
  },
  { id: "libraries", size: 72, header: "Libraries", meta: FIGURES, accessorFn: (each) => each.libraries?.length ?? 0 },
  {
    id: "creator",
    size: 108,
    header: "Creator",
    accessorFn: (each) => each.creator_user_name ?? "",
    cell: ({ row: { original: each } }) => <Creator name={each.creator_user_name ?? ""} />,
  },
];

function Items({ policy, admin, remove }: { policy: Policy; admin: boolean; remove: () => void }) {
  const params = { id: policy.policy_id };
  return (
    <>
      <Menu.Item
        renderRoot={(props) => <Link {...props} to="/compute/create" search={{ policy: policy.policy_id }} />}
        leftSection={<Icon name="plus" size={14} />}
      >
        Create compute with this policy
      </Menu.Item>
      {admin && (
        <>
          <Menu.Item
            renderRoot={(props) => <Link {...props} to="/compute/policies/$id/edit" params={params} />}
            leftSection={<Icon name="pencil" size={14} />}
          >
            Edit
          </Menu.Item>
          <Menu.Item
            renderRoot={(props) => (
              <Link {...props} to="/compute/policies/create" search={{ clone: policy.policy_id }} />
            )}
            leftSection={<Icon name="copy" size={14} />}
          >
            Clone
          </Menu.Item>
          <Menu.Item leftSection={<Icon name="trash" size={14} />} onClick={remove}>
            Delete
          </Menu.Item>
        </>
      )}
    </>
  );
}
