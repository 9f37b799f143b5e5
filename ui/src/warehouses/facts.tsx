import type { Warehouse } from "../api/warehouses";
import { money } from "../clusters/facts";
import { count } from "../lib/sizes";
import { nodesOf, SIZES, type Size } from "./draft";

export const LEVELS = ["CAN_VIEW", "CAN_USE", "CAN_MONITOR", "CAN_MANAGE", "IS_OWNER"] as const;

const LOOKS = { STARTING: "wait", RUNNING: "good", STOPPING: "wait", STOPPED: "off" } as const;

/** The state as a shape and a word. One that failed says so; the API calls it STOPPED. */
export function WarehouseState({ warehouse: { state, health } }: { warehouse: Warehouse }) {
  const failed = health.status === "FAILED";
  return (
    <span className={`word ${failed ? "bad" : LOOKS[state]}`} title={health.details || undefined}>
      {state}
    </span>
  );
}

export const stopsAfter = (minutes: number) => (minutes === 0 ? "never" : `${minutes} min`);

/** "Small: 4 workers". */
export function sizeText(size: string): string {
  return size in SIZES ? `${size}: ${count(SIZES[size as Size], "worker")}` : size;
}

interface Prices {
  currency: string;
  perHour: Map<string, number>;
}

/** What its nodes cost in an hour while it runs; "" if that is not known. */
export function costText(size: string, nodeType: string, prices: Prices | undefined): string {
  const price = prices?.perHour.get(nodeType);
  const nodes = nodesOf(size);
  return prices === undefined || price === undefined || nodes === undefined
    ? ""
    : money(price * nodes, prices.currency);
}

export const tagTexts = (warehouse: Warehouse) =>
  (warehouse.tags.custom_tags ?? []).map(({ key, value }) => `${key}: ${value}`);
