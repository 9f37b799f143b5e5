import { Modal, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useId, useRef, useState } from "react";
import { meQuery } from "../access/rights";
import { ADMIN_TABS } from "../admin/search";
import { policiesQuery, poolsQuery } from "../api/offers";
import { clustersQuery, pinnedQuery } from "../api/queries";
import { remote } from "../api/session";
import { ACTIONS, type ActionName, fitting, useActions } from "../clusters/actions";
import { isOwned, isWarehouse, nameOf } from "../clusters/facts";
import { Icon } from "../kit/icons";
import { help, palette, wanted } from "../kit/keys";
import { useValue } from "../lib/value";
import { logOut } from "./logout";
import { matching, type Place, step } from "./places";
import { useScheme } from "./scheme";

const MOST = 10;
const OFFERED: ActionName[] = ["start", "stop", "restart"];

export function Palette({ made }: { made: boolean }) {
  const opened = useValue(palette) && made;
  const close = () => palette.set(false);
  return (
    <Modal opened={opened} onClose={close} title="Go to" centered transitionProps={{ duration: 0 }}>
      {opened && <Places close={close} />}
    </Modal>
  );
}

/** All that can be found, in the order in which it is shown. */
function usePlaces(): () => Generator<Place> {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { act } = useActions();
  const scheme = useScheme();
  const { data: clusters = [] } = useQuery(clustersQuery);
  const pools = useQuery(poolsQuery).data ?? [];
  const policies = useQuery(policiesQuery).data ?? [];
  const me = useQuery(meQuery).data;
  const list = (id: string, name: string, tab?: "job" | "pools" | "policies" | "sql"): Place => ({
    id,
    name: `Compute: ${name}`,
    icon: "compute",
    go: () => navigate({ to: "/compute", search: tab === undefined ? {} : { tab } }),
  });
  return function* () {
    yield list("all", "all-purpose clusters");
    yield list("jobs", "job clusters", "job");
    yield list("pools", "pools", "pools");
    yield list("policies", "policies", "policies");
    yield list("warehouses", "SQL warehouses", "sql");
    yield { id: "sql", name: "SQL editor", icon: "prompt", go: () => navigate({ to: "/sql/editor", search: {} }) };
    const statements = () => navigate({ to: "/sql/history", search: {} });
    yield { id: "history", name: "Query history", icon: "history", go: statements };
    yield { id: "kept", name: "Jobs", icon: "play", go: () => navigate({ to: "/jobs", search: {} }) };
    yield { id: "runs", name: "Job runs", icon: "play", go: () => navigate({ to: "/jobs/runs", search: {} }) };
    const schedules = () => navigate({ to: "/schedules", search: {} });
    yield { id: "schedules", name: "Schedules and snapshots", icon: "clock", go: schedules };
    yield { id: "files", name: "Files", icon: "rows", go: () => navigate({ to: "/files", search: {} }) };
    yield { id: "catalog", name: "Catalog", icon: "database", go: () => navigate({ to: "/catalog", search: {} }) };
    yield { id: "spend", name: "Spend", icon: "coins", go: () => navigate({ to: "/spend", search: {} }) };
    yield { id: "settings", name: "Settings: your tokens", icon: "lock", go: () => navigate({ to: "/settings" }) };
    if (me?.groups.has("admins"))
      for (const tab of ADMIN_TABS)
        yield {
          id: `admin ${tab}`,
          name: `Admin: ${tab.replace("-", " ")}`,
          icon: "people",
          go: () => navigate({ to: "/admin", search: tab === "users" ? {} : { tab } }),
        };
    yield { id: "create", name: "Create compute", icon: "plus", go: () => navigate({ to: "/compute/create" }) };
    yield { id: "new", name: "Create pool", icon: "plus", go: () => navigate({ to: "/compute/pools/create" }) };
    yield { id: "rule", name: "Create policy", icon: "plus", go: () => navigate({ to: "/compute/policies/create" }) };
    yield { id: "job", name: "Create job", icon: "plus", go: () => navigate({ to: "/jobs/create" }) };
    const warehouse = () => navigate({ to: "/compute/warehouses/create" });
    yield { id: "warehouse", name: "Create SQL warehouse", icon: "plus", go: warehouse };
    yield { id: "scheme", name: scheme.label, icon: scheme.icon, go: scheme.change };
    yield { id: "keys", name: "Keyboard shortcuts", icon: "keyboard", go: () => help.set(true) };
    if (remote() === "")
      yield {
        id: "openapi",
        name: "Open the API's description (OpenAPI)",
        icon: "next",
        go: () => window.open("/openapi.json", "_blank", "noopener"),
      };
    yield { id: "logout", name: "Log out", icon: "out", go: logOut };
    for (const each of clusters)
      yield isWarehouse(each)
        ? {
            id: each.cluster_id,
            name: `SQL warehouse: ${nameOf(each)}`,
            icon: "database",
            go: () => navigate({ to: "/compute/warehouses/$id", params: { id: each.cluster_id } }),
          }
        : {
            id: each.cluster_id,
            name: nameOf(each),
            icon: "compute",
            go: () => navigate({ to: "/compute/clusters/$id", params: { id: each.cluster_id } }),
          };
    for (const each of pools)
      yield {
        id: each.instance_pool_id,
        name: `Pool: ${each.instance_pool_name}`,
        icon: "rows",
        go: () => navigate({ to: "/compute/pools/$id", params: { id: each.instance_pool_id } }),
      };
    for (const each of policies)
      yield {
        id: each.policy_id,
        name: `Policy: ${each.name}`,
        icon: "check",
        go: () => navigate({ to: "/compute/policies/$id", params: { id: each.policy_id } }),
      };
    const pinned = queries.getQueryData(pinnedQuery.queryKey);
    for (const each of clusters) {
      const id = each.cluster_id;
      for (const name of fitting(each, pinned?.has(id) ?? false).filter((one) => OFFERED.includes(one)))
        yield {
          id: `${name} ${id}`,
          name: `${ACTIONS[name].label} ${nameOf(each)}`,
          icon: ACTIONS[name].icon,
          go: () => act(name, [each]),
        };
      if (!isOwned(each))
        yield {
          id: `edit ${id}`,
          name: `Edit ${nameOf(each)}`,
          icon: "pencil",
          go: () => navigate({ to: "/compute/clusters/$id/edit", params: { id } }),
        };
    }
  };
}

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };

function Places({ close }: { close: () => void }) {
  const text = useValue(wanted);
  const places = usePlaces();
  const [at, setAt] = useState(0);
  const list = useId();
  const found = matching(places(), text, MOST);
  const chosen = Math.min(at, found.length - 1);
  const shown = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another one is chosen
  useEffect(() => {
    shown.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const go = (index: number) => {
    if (found[index] === undefined) return;
    close();
    void found[index].go();
  };
  return (
    <>
      <TextInput
        data-autofocus
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls={list}
        aria-activedescendant={found.length > 0 ? `${list}-${chosen}` : undefined}
        aria-autocomplete="list"
        autoComplete="off"
        aria-label="Name of a cluster, pool, policy, page or action"
        placeholder="Name of a cluster, pool, policy, page or action"
        mb={4}
        value={text}
        onChange={(event) => {
          wanted.set(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const by = STEPS[event.key];
          if (event.nativeEvent.isComposing) return;
          if (by !== undefined) setAt(step(chosen, by, found.length));
          else if (event.key === "Enter") go(chosen);
          else return;
          event.preventDefault();
        }}
      />
      <div id={list} className="places" role="listbox" aria-label="Found">
        {found.map((each, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus, and its keys choose
          <div
            key={each.id}
            id={`${list}-${index}`}
            ref={index === chosen ? shown : undefined}
            className="place"
            role="option"
            aria-selected={index === chosen}
            tabIndex={-1}
            onClick={() => go(index)}
          >
            <Icon name={each.icon} size={14} />
            {each.name}
          </div>
        ))}
      </div>
      <Text c="dimmed" role="status" size="sm">
        {found.length === 0 && "No matches."}
      </Text>
    </>
  );
}
