import "../cluster/cluster.css";
import "../kit/pages.css";
import "./spend.css";
import { Button, Group, NativeSelect, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { words } from "../api/client";
import { clustersQuery } from "../api/queries";
import { money } from "../clusters/facts";
import { PageHead } from "../kit/help";
import { Icon } from "../kit/icons";
import { PlainButton } from "../kit/plain";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { useTitle } from "../kit/title";
import { toast } from "../kit/toasts";
import { download } from "../lib/files";
import { Budgets } from "./budgets";
import { budgetsQuery, daysQuery, forFile, groupsQuery, type Spend } from "./calls";
import { SpendChart } from "./chart";
import { csvOf, daysOf, fitting, groupBy, nameOf, seriesOf, startOf } from "./grouping";
import { KEYS, RANGES, readSpendSearch, type SpendSearch } from "./search";

const MONTH_DAYS = 30;

export function SpendPage() {
  const given = useSearch({ from: "/spend" });
  const search = useMemo(() => readSpendSearch({ ...given }), [given]);
  const navigate = useNavigate({ from: "/spend" });
  const [now, setNow] = useState(Date.now); // of when the page was opened: a range that moved would ask again and again
  const change = (changed: Partial<SpendSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changed }), replace: true });
  const enter = (changed: Partial<SpendSearch>) => void navigate({ search: (old) => ({ ...old, ...changed }) });
  const asked = useQuery(groupsQuery(search, now));
  useTitle("Spend");
  const exporting = useMutation({
    mutationFn: () => forFile(search, now),
    onSuccess: (found) => {
      download("spend.csv", [csvOf(found.groups)], "text/csv");
      if (found.left_out > 0)
        toast(`The file has the 10,000 greatest. ${found.left_out} more are summed up in its last line.`, {
          stays: true,
        });
    },
    onError: (error) => toast(words(error), { failed: true }),
  });
  const ready = groupBy(search) !== undefined;
  return (
    <div className="content">
      <PageHead title="Spend" topic="spend" />
      <Controls search={search} change={change}>
        <Button
          variant="default"
          leftSection={<Icon name="restart" size={14} />}
          loading={asked.isRefetching}
          onClick={() => setNow(Date.now())}
        >
          Refresh
        </Button>
        <Button
          variant="default"
          leftSection={<Icon name="download" size={14} />}
          disabled={!ready}
          loading={exporting.isPending}
          onClick={() => exporting.mutate()}
        >
          CSV
        </Button>
      </Controls>
      {!ready ? (
        <Text className="nothing">Name a tag to see the spend of each of its values.</Text>
      ) : asked.data === undefined ? (
        <Reading query={asked} what="Reading the spend" />
      ) : (
        <Found spend={asked.data} search={search} now={now} enter={enter} />
      )}
      <Budgets
        search={search}
        show={({ tag, creator_user_name: user }) =>
          enter({ tag: tag || undefined, user: user || undefined, cluster: undefined, range: "30d" })
        }
      />
    </div>
  );
}

function Controls({
  search,
  change,
  children,
}: {
  search: SpendSearch;
  change: (changed: Partial<SpendSearch>) => void;
  children: React.ReactNode;
}) {
  const clusters = useQuery(clustersQuery).data ?? [];
  const keys = useMemo(
    () => [...new Set(clusters.flatMap((each) => Object.keys(each.custom_tags ?? {})))].sort().slice(0, 200),
    [clusters],
  );
  const filters = (["user", "tag", "cluster"] as const).filter((each) => search[each]);
  return (
    <>
      <Group justify="space-between" gap="xs" align="flex-end">
        <Group gap={8} align="flex-end">
          <SegmentedControl
            size="xs"
            aria-label="Spend of the last"
            data={RANGES.map(({ value, label }) => ({ value, label }))}
            value={search.range ?? "7d"}
            onChange={(range) => change({ range: range === "7d" ? undefined : (range as SpendSearch["range"]) })}
          />
          <NativeSelect
            size="xs"
            aria-label="By"
            data={KEYS.map(({ value, label }) => ({ value, label: `By ${label.toLowerCase()}` }))}
            value={search.by ?? "creator"}
            onChange={(event) =>
              change({ by: event.currentTarget.value as SpendSearch["by"], key: search.key ?? keys[0] })
            }
          />
          {search.by === "tag" && (
            <>
              <TextInput
                aria-label="Tag"
                placeholder="Tag, such as team"
                list="spend-tags"
                value={search.key ?? ""}
                onChange={(event) => change({ key: event.currentTarget.value || undefined })}
              />
              <datalist id="spend-tags">
                {keys.map((each) => (
                  <option key={each} value={each} />
                ))}
              </datalist>
            </>
          )}
        </Group>
        <Group gap={6}>{children}</Group>
      </Group>
      {filters.length > 0 && (
        <Group gap={6}>
          {filters.map((each) => (
            <PlainButton key={each} on onClick={() => change({ [each]: undefined })}>
              <span className="unseen">Remove the filter </span>
              {each}: {each === "cluster" ? clusterName(search.cluster, clusters) : search[each]}
              <Icon name="close" size={12} />
            </PlainButton>
          ))}
        </Group>
      )}
    </>
  );
}

const clusterName = (id: string | undefined, clusters: { cluster_id: string; cluster_name?: string | null }[]) =>
  clusters.find((each) => each.cluster_id === id)?.cluster_name || id;

interface FoundProps {
  spend: Spend;
  search: SpendSearch;
  now: number;
  enter: (changed: Partial<SpendSearch>) => void; // from where one can go back
}

function Found({ spend, search, now, enter }: FoundProps) {
  const days = useQuery(daysQuery(search, now));
  const budgets = useQuery(budgetsQuery).data ?? [];
  const currencies = spend.totals.map((each) => each.currency);
  const names = useMemo(() => daysOf(startOf(search.range, now), now), [search.range, now]);
  if (spend.totals.length === 0)
    return (
      <Text className="nothing">Nothing was spent in this time. Clusters cost from when their nodes are launched.</Text>
    );
  return (
    <>
      <dl className="totals">
        {spend.totals.map((each) => (
          <div key={each.currency}>
            <dt>{spend.scope === "own" ? "Your clusters cost" : "Total"}</dt>
            <dd>{money(each.amount, each.currency)}</dd>
            <dd className="soft">
              {each.node_hours.toLocaleString(undefined, { maximumFractionDigits: 1 })} node hours
              {each.price_per_hour > 0 && `, now ${money(each.price_per_hour, each.currency)} per hour`}
            </dd>
          </div>
        ))}
      </dl>
      {days.data === undefined ? (
        <Reading query={days} what="Reading the days" rows={5} />
      ) : (
        currencies.map((each) => (
          <Days
            key={each}
            days={names}
            groups={days.data.groups}
            currency={each}
            budgets={fitting(budgets, search, each)}
          />
        ))
      )}
      <Groups spend={spend} search={search} enter={enter} />
    </>
  );
}

function Days({
  days,
  groups,
  currency,
  budgets,
}: {
  days: string[];
  groups: Spend["groups"];
  currency: string;
  budgets: { amount: number }[];
}) {
  const series = useMemo(() => seriesOf(groups, days, currency), [groups, days, currency]);
  const least = budgets.length > 0 ? Math.min(...budgets.map((each) => each.amount)) / MONTH_DAYS : undefined;
  return <SpendChart days={days} series={series} currency={currency} line={least} />;
}

const FIGURES = ["Spend", "Share", "Node hours", "Per hour now"];

function Groups({ spend, search, enter }: Omit<FoundProps, "now">) {
  const by = KEYS.find((each) => each.value === (search.by ?? "creator"));
  const total = new Map(spend.totals.map((each) => [each.currency, each.amount]));
  return (
    <>
      <PlainTable heads={[by?.label ?? "", ...FIGURES]} figures={FIGURES}>
        {spend.groups.map((each) => (
          <tr key={`${each.currency} ${each.others} ${each.key}`}>
            <td data-label={by?.label}>
              <span>
                <Name group={each} search={search} enter={enter} />
                {search.by === "cluster" && !each.others && (
                  <span className="under">
                    {each.creator_user_name}{" "}
                    <Link to="/compute/clusters/$id" params={{ id: each.key }}>
                      Open the cluster
                    </Link>
                  </span>
                )}
              </span>
            </td>
            <td data-label="Spend" className="figures">
              {money(each.amount, each.currency)}
            </td>
            <td data-label="Share" className="figures">
              {((each.amount / (total.get(each.currency) || 1)) * 100).toFixed(1)} %
            </td>
            <td data-label="Node hours" className="figures">
              {each.node_hours.toLocaleString(undefined, { maximumFractionDigits: 1 })}
            </td>
            <td data-label="Per hour now" className="figures">
              {each.price_per_hour > 0 ? money(each.price_per_hour, each.currency) : "-"}
            </td>
          </tr>
        ))}
      </PlainTable>
      {spend.left_out > 0 && (
        <Text size="sm" c="dimmed">
          Others are the sum of {spend.left_out.toLocaleString()} more. The CSV file has up to 10,000.
        </Text>
      )}
    </>
  );
}

/** A click shows this one alone, by what is in it. */
function Name({ group, search, enter }: { group: Spend["groups"][number] } & Omit<FoundProps, "spend" | "now">) {
  const name = nameOf(group);
  const by = search.by ?? "creator";
  const only: Partial<SpendSearch> | undefined =
    by === "creator"
      ? { user: group.key, by: "cluster" }
      : by === "cluster"
        ? { cluster: group.key, by: "role" }
        : by === "tag" && group.key
          ? { tag: `${search.key}=${group.key}`, by: "cluster" }
          : undefined;
  if (group.others || only === undefined) return <b>{name}</b>;
  return (
    <button type="button" className="link" onClick={() => enter(only)}>
      {name}
    </button>
  );
}
