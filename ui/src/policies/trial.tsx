import { Checkbox, Loader, SegmentedControl, Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { words } from "../api/client";
import { clustersQuery } from "../api/queries";
import { offered } from "../api/session";
import { isOwned, money, nameOf } from "../clusters/facts";
import { beginning } from "../editor/begin";
import type { Verdict } from "../editor/calls";
import type { Spec } from "../editor/spec";
import { useOffers } from "../editor/state";
import { useUser } from "../editor/user";
import { Icon } from "../kit/icons";
import { jsonObject } from "../lib/json";
import { type ClusterType, type Source, tryPolicy } from "./calls";

const JsonEditor = lazy(() => import("../editor/json"));
const SETTLE_MS = 300;
const AGAIN_MS = 5000;
const TYPES: { value: ClusterType; label: string }[] = [
  { value: "all-purpose", label: "All-purpose" },
  { value: "job", label: "Job" },
];

/** Whether the workspace can try a policy that is not saved. */
export const triesPolicies = () => offered("/api/2.1/policies/clusters/try");

/** Asks the server about the policy as it is typed, whenever it has not changed for a moment. */
export function useTrial(source: Source) {
  const offers = useOffers();
  const user = useUser();
  const [typed, setTyped] = useState<string>();
  const [defaults, setDefaults] = useState(true);
  const [type, setType] = useState<ClusterType>("all-purpose");
  const ready = user !== undefined && offers.nodeTypes.length > 0 && offers.runtimes.size > 0;
  const text = typed ?? (ready ? JSON.stringify(beginning(offers, user), null, 2) : "");
  const { object, mistake } = text === "" ? {} : jsonObject(text);
  const cluster = { ...object, apply_policy_default_values: defaults || undefined };
  const [settled] = useDebouncedValue(JSON.stringify({ source, cluster, type }), SETTLE_MS);
  const asked = useQuery({
    queryKey: ["trial", settled],
    queryFn: () => {
      const said = JSON.parse(settled) as { source: Source; cluster: unknown; type: ClusterType };
      return tryPolicy(said.source, said.cluster, said.type);
    },
    enabled: ready && triesPolicies(),
    gcTime: 60_000,
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.status === "error" ? AGAIN_MS : false),
  });
  return {
    text,
    setText: setTyped,
    mistake,
    defaults,
    setDefaults,
    type,
    setType,
    trial: asked.data,
    trouble: asked.isError ? asked.error : undefined,
    checking: asked.isFetching,
    problems: asked.data?.problems ?? [],
  };
}

type Trying = ReturnType<typeof useTrial>;

/** A specification, and what the policy that is being edited would do to it. */
export function Trial({ trying }: { trying: Trying }) {
  const clusters = (useQuery(clustersQuery).data ?? []).filter((each) => !isOwned(each));
  const { text, setText, mistake, defaults, setDefaults, type, setType } = trying;
  const take = (id: string | null) => {
    const found = clusters.find((each) => each.cluster_id === id);
    if (found === undefined) return;
    const { policy_id: _, ...spec } = (found.spec ?? {}) as Spec;
    setText(JSON.stringify(spec, null, 2));
  };
  return (
    <aside className="trial" aria-label="Try it">
      <h2>Try it</h2>
      <p className="help">Checks this cluster against the policy in the editor. Nothing is saved or created.</p>
      {clusters.length > 0 && (
        <Select
          aria-label="Copy the specification of a cluster"
          placeholder="Copy the specification of a cluster"
          searchable
          nothingFoundMessage="Nothing matches"
          value={null}
          data={clusters.map((each) => ({ value: each.cluster_id, label: nameOf(each) }))}
          onChange={take}
        />
      )}
      <Suspense fallback={<Loader size="sm" role="status" aria-label="Loading the editor" />}>
        <JsonEditor text={text} label="Specification to try" height={120} onChange={setText} />
      </Suspense>
      {mistake !== undefined && <p className="wrong">{mistake}</p>}
      <SegmentedControl
        size="xs"
        aria-label="Type of the cluster"
        data={TYPES}
        value={type}
        onChange={(value) => setType(value as ClusterType)}
      />
      <Checkbox
        label="Apply the policy's default values"
        checked={defaults}
        onChange={(event) => setDefaults(event.currentTarget.checked)}
      />
      <div className="answer" role="status" aria-live="polite" aria-label="The server's answer">
        {trying.trouble !== undefined ? (
          <p className="wrong">{words(trying.trouble)}</p>
        ) : trying.trial === undefined ? (
          <p className="soft">Checking…</p>
        ) : trying.trial.verdict == null ? (
          <p className="wrong">The policy has errors. They are listed next to its definition.</p>
        ) : (
          <Judgement verdict={trying.trial.verdict} />
        )}
      </div>
    </aside>
  );
}

function Judgement({ verdict }: { verdict: Verdict }) {
  const price = verdict.price_per_hour;
  const sets = verdict.locks.filter((each) => each.value != null);
  const forbids = verdict.locks.filter((each) => each.value == null);
  return (
    <>
      <div>
        <span className={verdict.valid ? "word good" : "word bad"}>{verdict.valid ? "Accepted" : "Refused"}</span>
        {price && (
          <span className="soft">
            {" "}
            {money(price.least, price.currency)}
            {price.most !== price.least && ` – ${money(price.most, price.currency)}`} per hour
          </span>
        )}
      </div>
      <Said title="Refuses" items={verdict.errors.map((each) => ({ field: each.field, text: each.message }))} bad />
      <Said title="Locks" items={sets.map((each) => ({ field: each.field, text: `is ${each.value}`, lock: true }))} />
      <Said
        title="Forbids"
        items={forbids.map((each) => ({ field: each.field, text: "must not be set", lock: true }))}
      />
      {verdict.effective && (
        <details>
          <summary>Resulting cluster</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
          <pre className="code" tabIndex={0}>
            {JSON.stringify(verdict.effective, null, 2)}
          </pre>
        </details>
      )}
    </>
  );
}

interface Item {
  field: string;
  text: string;
  lock?: boolean;
}

function Said({ title, items, bad = false }: { title: string; items: Item[]; bad?: boolean }) {
  if (items.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul>
        {items.map((each) => (
          <li key={each.field + each.text} className={bad ? "wrong" : undefined}>
            {each.lock && <Icon name="lock" size={12} />} {!bad && <code>{each.field}</code>} {each.text}
          </li>
        ))}
      </ul>
    </section>
  );
}
