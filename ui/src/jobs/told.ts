import type { components } from "../api/schema";

type Settings = components["schemas"]["JobSettings"];

export const EVENTS = [
  { value: "on_start", label: "Start" },
  { value: "on_success", label: "Success" },
  { value: "on_failure", label: "Failure" },
  { value: "on_duration_warning_threshold_exceeded", label: "Duration warning" },
] as const;
export type Event = (typeof EVENTS)[number]["value"];

/** Somebody who hears of one event: a destination's id, or an e-mail address. */
export interface Told {
  id: number; // within the form
  event: Event;
  to: string;
}

/** Who hears of a job's runs, as the form has it. */
export interface Telling {
  told: Told[];
  warnAfter: number | undefined; // seconds
  mail: Settings["email_notifications"]; // as it was read, for what the form does not show
}

export const NOBODY: Telling = { told: [], warnAfter: undefined, mail: undefined };

let made = 0;
export const told = (event: Event = "on_failure", to = ""): Told => ({ id: ++made, event, to });

const isAddress = (to: string) => to.includes("@");

export function tellingOf({ webhook_notifications: hooks, email_notifications: mail, health }: Settings): Telling {
  return {
    told: EVENTS.flatMap(({ value }) => [
      ...(hooks?.[value] ?? []).map((each) => told(value, each.id)),
      ...(mail?.[value] ?? []).map((each) => told(value, each)),
    ]),
    warnAfter: health?.rules?.[0]?.value,
    mail,
  };
}

/** What is saved of it. */
export function wantedTelling({ told: all, warnAfter, mail }: Telling): Settings {
  const listed = <T>(kept: (to: string) => boolean, as: (to: string) => T) =>
    Object.fromEntries(
      EVENTS.flatMap(({ value }) => {
        const found = all.filter((each) => each.event === value && each.to.trim() && kept(each.to));
        return found.length > 0 ? [[value, found.map((each) => as(each.to.trim()))]] : [];
      }),
    );
  const hooks = listed(
    (to) => !isAddress(to),
    (id) => ({ id }),
  );
  const others = Object.entries(mail ?? {}).filter(([name]) => !EVENTS.some((each) => each.value === name));
  const addresses = { ...Object.fromEntries(others), ...listed(isAddress, (to) => to) };
  return {
    ...(Object.keys(hooks).length > 0 && { webhook_notifications: hooks }),
    ...(Object.keys(addresses).length > 0 && { email_notifications: addresses }),
    ...(warnAfter !== undefined && {
      health: { rules: [{ metric: "RUN_DURATION_SECONDS", op: "GREATER_THAN", value: warnAfter }] },
    }),
  };
}
