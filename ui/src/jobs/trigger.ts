import type { components } from "../api/schema";

type Settings = components["schemas"]["JobSettings"];

/** What begins a job's runs, as the form has it. */
export interface Trigger {
  when: "none" | "cron" | "periodic" | "files" | "tables" | "continuous";
  cron: string;
  zone: string;
  interval: number | undefined;
  unit: "HOURS" | "DAYS" | "WEEKS";
  url: string; // of the directory of new files
  tables: string; // names with blanks, commas or line breaks between them
  all: boolean; // whether all tables must have new versions
  between: number | undefined; // seconds between two runs by files or tables
  quiet: number | undefined; // seconds after the last change of them
  paused: boolean;
  continuous: Settings["continuous"]; // as it was read, for what the form does not show
}

export const NO_TRIGGER: Omit<Trigger, "zone"> = {
  when: "none",
  cron: "0 0 6 * * ?",
  interval: 1,
  unit: "DAYS",
  url: "",
  tables: "",
  all: false,
  between: undefined,
  quiet: undefined,
  paused: false,
  continuous: undefined,
};

/** At most one of these is in a job. */
export const WAYS = ["schedule", "trigger", "continuous"] as const;

export function triggerOf({ schedule, trigger, continuous }: Settings, zone: string): Trigger {
  const { periodic, file_arrival: files, table_update: tables } = trigger ?? {};
  const watched = files ?? tables;
  const when = schedule
    ? "cron"
    : continuous
      ? "continuous"
      : periodic
        ? "periodic"
        : files
          ? "files"
          : tables
            ? "tables"
            : "none";
  return {
    when,
    cron: schedule?.quartz_cron_expression ?? NO_TRIGGER.cron,
    zone: schedule?.timezone_id ?? zone,
    interval: periodic?.interval ?? NO_TRIGGER.interval,
    unit: periodic?.unit ?? NO_TRIGGER.unit,
    url: files?.url ?? "",
    tables: (tables?.table_names ?? []).join("\n"),
    all: tables?.condition === "ALL_UPDATED",
    between: watched?.min_time_between_triggers_seconds ?? undefined,
    quiet: watched?.wait_after_last_change_seconds ?? undefined,
    paused: (schedule ?? trigger ?? continuous)?.pause_status === "PAUSED",
    continuous,
  };
}

const namesOf = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** What is saved of it. */
export function wantedTrigger(of: Trigger): Settings {
  const pause_status = of.paused ? "PAUSED" : "UNPAUSED";
  const waits = {
    ...(of.between !== undefined && { min_time_between_triggers_seconds: of.between }),
    ...(of.quiet !== undefined && { wait_after_last_change_seconds: of.quiet }),
  };
  switch (of.when) {
    case "cron":
      return {
        schedule: { quartz_cron_expression: of.cron.trim(), timezone_id: of.zone.trim(), pause_status },
      };
    case "periodic":
      return { trigger: { periodic: { interval: of.interval ?? 0, unit: of.unit }, pause_status } };
    case "files":
      return { trigger: { file_arrival: { url: of.url.trim(), ...waits }, pause_status } };
    case "tables": {
      const condition = of.all ? "ALL_UPDATED" : "ANY_UPDATED";
      return { trigger: { table_update: { table_names: namesOf(of.tables), condition, ...waits }, pause_status } };
    }
    case "continuous":
      return { continuous: { ...of.continuous, pause_status } };
    default:
      return {};
  }
}

/** When a job runs, in words; undefined: only when someone starts it. The schedule's own words are `inWords`. */
export function triggerInWords({ trigger, continuous }: Settings): string | undefined {
  if (continuous) return "Continuous";
  const { periodic, file_arrival: files, table_update: tables } = trigger ?? {};
  if (periodic) {
    const unit = periodic.unit.toLowerCase();
    return periodic.interval === 1 ? `Every ${unit.replace(/s$/, "")}` : `Every ${periodic.interval} ${unit}`;
  }
  if (files) return `When files arrive in ${files.url}`;
  if (!tables) return undefined;
  const names = tables.table_names;
  if (names.length === 1) return `When ${names[0]} is updated`;
  return `When ${tables.condition === "ALL_UPDATED" ? "all" : "any"} of ${names.join(", ")} are updated`;
}
