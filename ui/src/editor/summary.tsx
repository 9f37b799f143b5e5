import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { words } from "../api/client";
import { hasPoolDetails, poolDetailsQuery } from "../api/offers";
import { clustersQuery } from "../api/queries";
import { isOwned, money } from "../clusters/facts";
import { Icon } from "../kit/icons";
import { count } from "../lib/sizes";
import { lasting } from "../lib/time";
import { checks, startsQuery } from "./calls";
import { goTo } from "./fields";
import type { Spec } from "./spec";
import { type Editor, outcome, useEditor } from "./state";

interface Range {
  least: number;
  most: number;
}

const ranged = ({ least, most }: Range, text: (value: number) => string) =>
  least === most ? text(least) : `${text(least)} – ${text(most)}`;

/** What the nodes have together; undefined as long as something is not known. */
function sums(editor: Editor) {
  const spec = (outcome(editor) ?? editor.draft) as Spec;
  const typeOf = (id: string | null | undefined) => editor.offers.nodeTypes.find((each) => each.node_type_id === id);
  const worker = typeOf(spec.node_type_id ?? poolType(editor, spec.instance_pool_id));
  const driver = typeOf(spec.driver_node_type_id ?? poolType(editor, spec.driver_instance_pool_id)) ?? worker;
  const workers: Range = {
    least: spec.autoscale?.min_workers ?? spec.num_workers ?? 0,
    most: spec.autoscale?.max_workers ?? spec.num_workers ?? 0,
  };
  const total = (of: (type: NonNullable<typeof worker>) => number): Range | undefined => {
    if (worker === undefined || driver === undefined) return undefined;
    return { least: of(driver) + workers.least * of(worker), most: of(driver) + workers.most * of(worker) };
  };
  return {
    nodes: { least: workers.least + 1, most: workers.most + 1 },
    cores: total((type) => type.num_cores),
    memory: total((type) => type.memory_mb / 1024),
    gpus: total((type) => type.num_gpus ?? 0),
  };
}

const poolType = (editor: Editor, id: string | null | undefined) =>
  editor.offers.pools.find((each) => each.instance_pool_id === id)?.node_type_id;

const figure = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });

export function Summary() {
  const editor = useEditor();
  const { nodes, cores, memory, gpus } = sums(editor);
  const price = editor.verdict?.price_per_hour;
  const facts: [string, string][] = [
    ["Nodes", ranged(nodes, figure)],
    ["Cores", cores ? ranged(cores, figure) : "–"],
    ["Memory", memory ? `${ranged(memory, figure)} GiB` : "–"],
  ];
  if (gpus && gpus.most > 0) facts.push(["GPUs", ranged(gpus, figure)]);
  if (checks()) facts.push(["Price per hour", price ? ranged(price, (value) => money(value, price.currency)) : "–"]);
  const [open, setOpen] = useState(false);
  return (
    <aside className={open ? "summary open" : "summary"} aria-label="Summary">
      <button type="button" className="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span>
          {facts
            .slice(0, 3)
            .map(([name, value]) => (name === "Memory" ? value : `${value} ${name.toLowerCase()}`))
            .join(", ")}
        </span>
        <Icon name={open ? "down" : "up"} size={14} />
      </button>
      <dl aria-busy={editor.checking}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <Start nodes={nodes.least} />
      </dl>
      <Verdict />
    </aside>
  );
}

/** Whether it would start warm, as far as the pool's warm instances reach now, and how long such starts took lately. */
function Start({ nodes }: { nodes: number }) {
  const { draft, offers } = useEditor();
  const { data: clusters = [] } = useQuery(clustersQuery);
  const pool = offers.pools.find((each) => each.instance_pool_id === draft.instance_pool_id);
  const details = useQuery({ ...poolDetailsQuery, enabled: pool !== undefined && hasPoolDetails() }).data;
  const idle = pool?.stats.idle_count ?? 0;
  const fits = draft.spark_version != null && (pool?.preloaded_spark_versions ?? []).includes(draft.spark_version);
  const warm = fits ? (details?.get(pool?.instance_pool_id ?? "")?.warm_count ?? 0) : 0;
  const alike = clusters
    .filter((each) => !isOwned(each) && each.spark_version === draft.spark_version)
    .filter((each) => (each.instance_pool_id ?? "") === (draft.instance_pool_id ?? ""))
    .sort((one, other) => (other.start_time ?? 0) - (one.start_time ?? 0));
  const key = `${draft.spark_version} ${draft.instance_pool_id}`;
  const { data: starts } = useQuery({
    ...startsQuery(
      key,
      alike.map((each) => each.cluster_id),
    ),
    enabled: alike.length > 0,
  });
  return (
    <div>
      <dt>Time to start</dt>
      <dd>
        {warm >= nodes ? "Warm" : warm > 0 ? "Partly warm" : "Cold"}
        {starts && (starts.medianMs < 1000 ? ", under a second" : `, about ${lasting(starts.medianMs)}`)}
        <span className="soft">
          {warm > 0
            ? `${count(warm, "warm instance")} in the pool with this runtime`
            : idle > 0
              ? `on ${count(idle, "idle instance")}`
              : "instances are launched"}
          {starts && `; median of the last ${starts.count === 1 ? "start" : `${starts.count} starts`} like this`}
        </span>
      </dd>
    </div>
  );
}

/** What the server says: every mistake with a way to its field, or that there is none. */
function Verdict() {
  const { errors, warnings, verdict, checking, trouble, draft } = useEditor();
  const effective = verdict?.effective;
  const unknown =
    effective && !checking // what was checked before may have had less
      ? Object.entries(draft).filter(([name, value]) => isSaid(value) && !(name in effective) && name !== DEFAULTS)
      : [];
  return (
    <div className="verdict" role="status" aria-live="polite">
      {trouble ? (
        <p className="wrong">{words(trouble)}</p>
      ) : errors.length > 0 ? (
        <>
          <p className="wrong">
            {errors.length === 1 ? "One setting needs" : `${errors.length} settings need`} a change:
          </p>
          <ul>
            {errors.map((each) => (
              <li key={each.field + each.message}>
                {each.field === "" ? (
                  each.message
                ) : (
                  <button type="button" className="textbutton" onClick={() => goTo(each.field)}>
                    {each.message}
                  </button>
                )}
              </li>
            ))}
          </ul>
        </>
      ) : verdict?.valid ? (
        <p className="soft">
          {!checks()
            ? "This workspace checks the configuration when you save it."
            : checking
              ? "Checking…"
              : "The configuration is valid."}
        </p>
      ) : (
        <p className="soft">Checking…</p>
      )}
      {!checking && warnings.length > 0 && (
        <>
          <p className="warns">The cluster would fail to start:</p>
          <ul>
            {warnings.map((each) => (
              <li key={each.field + each.message}>
                <button type="button" className="textbutton" onClick={() => goTo(each.field)}>
                  {each.message}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      {unknown.map(([name]) => (
        <p className="wrong" key={name}>
          Unknown field <code>{name}</code>. The server ignores it.
        </p>
      ))}
    </div>
  );
}

const DEFAULTS = "apply_policy_default_values";
const isSaid = (value: unknown) =>
  value !== null && value !== "" && value !== false && value !== 0 && !(typeof value === "object" && !size(value));
const size = (value: object) => Object.keys(value).length;
