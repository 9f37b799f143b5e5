import { Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import type { Pool, PoolInstance } from "../api/offers";
import { count } from "../lib/sizes";
import { exactly } from "../lib/time";

type State = PoolInstance["state"];

/** What an instance is doing, in words, and how its brick looks. */
const LOOKS: Record<State, { word: string; look: string; says: string }> = {
  WARM: { word: "warm", look: "warm", says: "Idle, with the preloaded runtime's JVM waiting" },
  IDLE: { word: "idle", look: "idle", says: "Idle, without a warm JVM" },
  USED: { word: "used", look: "used", says: "Used by a cluster" },
  PENDING_USED: { word: "pending", look: "coming", says: "Being launched for a cluster" },
  PREPARING: { word: "preparing", look: "coming", says: "Being cleaned, or warming up" },
  LAUNCHING: { word: "launching", look: "coming", says: "Being launched" },
};
const ORDER: State[] = ["WARM", "IDLE", "USED", "PENDING_USED", "PREPARING", "LAUNCHING"];
const FREE_SHOWN = 40; // free places that are drawn, at most
const DENSE = 48; // from so many bricks on, they are small

/** A place for each instance, which it keeps for as long as the page is open: nothing moves when others come and go. */
function usePlaces(instances: PoolInstance[]): (PoolInstance | undefined)[] {
  const kept = useRef<string[]>([]);
  const here = new Map(instances.map((each) => [each.instance_id, each]));
  const places = kept.current.map((id) => (here.has(id) ? id : ""));
  const known = new Set(places);
  const coming = instances.filter((each) => !known.has(each.instance_id));
  coming.sort((one, other) => one.created_at - other.created_at || one.instance_id.localeCompare(other.instance_id));
  for (const each of coming) {
    const free = places.indexOf("");
    places[free === -1 ? places.length : free] = each.instance_id;
  }
  kept.current = places;
  return places.map((id) => here.get(id));
}

interface Props {
  pool: Pool;
  instances: PoolInstance[];
  nameOf: (clusterId: string) => string | undefined;
}

/** The pool's instances as bricks, live, and what it has room for. */
export function Picture({ pool, instances, nameOf }: Props) {
  const places = usePlaces(instances);
  const most = pool.max_capacity;
  const free = most == null ? 0 : Math.max(0, most - instances.length);
  const empty = places.filter((each) => each === undefined).length;
  const added = Math.max(0, Math.min(free, FREE_SHOWN) - empty);
  const counts = ORDER.map((state) => ({ state, number: instances.filter((each) => each.state === state).length }));
  return (
    <>
      <ul className="legend" aria-label="How many">
        {counts
          .filter((each) => each.number > 0 || each.state === "WARM" || each.state === "USED")
          .map(({ state, number }) => (
            <li key={state}>
              <span className={`swatch ${LOOKS[state].look}`} aria-hidden="true" />
              <b>{number}</b> {LOOKS[state].word}
            </li>
          ))}
        {most != null && (
          <li>
            <span className="swatch free" aria-hidden="true" />
            <b>{free}</b> free of {most}
          </li>
        )}
      </ul>
      {places.length + added === 0 ? (
        <p className="soft">
          The pool has no instances. They are launched when a cluster needs them
          {pool.min_idle_instances ? ", or as soon as the provider has capacity" : ""}.
        </p>
      ) : (
        <ul className={places.length > DENSE ? "bricks dense" : "bricks"} aria-label="Instances">
          {places.map((each, at) =>
            each === undefined ? (
              <Free key={`place ${String(at)}`} />
            ) : (
              <Brick key={each.instance_id} instance={each} nameOf={nameOf} />
            ),
          )}
          {Array.from({ length: added }, (_, at) => (
            <Free key={`free ${String(at)}`} />
          ))}
        </ul>
      )}
      {free > FREE_SHOWN && <p className="soft">and capacity for {count(free - FREE_SHOWN, "more instance")}.</p>}
    </>
  );
}

const Free = () => <li className="brick free" aria-hidden="true" />;

function Brick({ instance, nameOf }: { instance: PoolInstance; nameOf: Props["nameOf"] }) {
  const { word, look, says } = LOOKS[instance.state];
  const id = instance.cluster_id;
  const held = instance.state === "USED" || instance.state === "PENDING_USED";
  const about = `${instance.instance_id}: ${instance.message ?? says}. Since ${exactly(instance.created_at)}`;
  return (
    <li className={`brick ${look}`} data-state={instance.state}>
      <Tooltip label={about} multiline maw={380}>
        <span className="brick-state">{word}</span>
      </Tooltip>
      {id != null ? (
        <Link to="/compute/clusters/$id" params={{ id }} title={nameOf(id) ?? id}>
          {nameOf(id) ?? id}
        </Link>
      ) : held ? (
        <span className="soft">a cluster that you cannot see</span>
      ) : (
        <span className="soft mono">{instance.instance_id}</span>
      )}
      {instance.message && <span className="wrong">{instance.message}</span>}
    </li>
  );
}
