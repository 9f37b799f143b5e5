import { Button, Group, NativeSelect, Text, Textarea, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { type Cluster, words } from "../api/client";
import { Icon } from "../kit/icons";
import { useKept, useKeptText } from "../lib/kept";
import { lasting, useNow } from "../lib/time";
import { begin, cancel, end, execute, type Language, type Outcome, outcome, type Status } from "./commands";
import { ResultView } from "./result";

interface Entry {
  key: number;
  language: Language;
  code: string;
  begun: number;
  took?: number; // ms
  status: Status | "Starting";
  commandId?: string;
  outcome?: Outcome;
  failure?: string; // what the server said against it
}

const LANGUAGES: { value: Language; label: string }[] = [
  { value: "python", label: "Python" },
  { value: "sql", label: "SQL" },
  { value: "scala", label: "Scala" },
];
const HINTS: Record<Language, string> = {
  python: "spark.range(10).toPandas()",
  sql: "SELECT current_user(), current_date()",
  scala: "spark.range(10).count()",
};
const MOST = 50; // entries that are kept on the page

let last = 0;

/** A console of its own for everybody who opens the page: commands share their variables, and wait for one another. */
export function Console({ cluster, runs }: { cluster: Cluster; runs: boolean }) {
  const id = cluster.cluster_id;
  const incarnation = `${id} ${cluster.last_restarted_time ?? cluster.start_time ?? ""}`;
  const [language, setLanguage] = useKept<Language>("language", "python");
  const [code, setCode] = useKeptText(`console.${id}`);
  const [context, setContext] = useKeptText(`context.${incarnation}`);
  const [entries, setEntries] = useState<Entry[]>([]);
  const queries = useQueryClient();
  const opening = useRef<Promise<string> | null>(null);
  const alive = useRef(true);
  const typed = useRef(code);
  typed.current = code;
  useEffect(() => {
    alive.current = true;
    return () => {
      alive.current = false;
    };
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a cluster that has restarted has none of the sessions before
  useEffect(() => {
    opening.current = null;
  }, [incarnation]);

  const update = (key: number, changed: Partial<Entry>) =>
    setEntries((now) => now.map((each) => (each.key === key ? { ...each, ...changed } : each)));
  const attached = () => void queries.invalidateQueries({ queryKey: ["cluster", id, "attached"] });

  /** The session; begins one if there is none. */
  const session = (): Promise<string> => {
    if (context) return Promise.resolve(context);
    opening.current ??= begin(id, language)
      .then((made) => {
        setContext(made);
        attached();
        return made;
      })
      .catch((error: unknown) => {
        opening.current = null;
        throw error;
      });
    return opening.current;
  };

  const run = async () => {
    const command = code.trim();
    if (command === "" || !runs) return;
    last += 1;
    const entry: Entry = { key: last, language, code: command, begun: Date.now(), status: "Starting" };
    setEntries((now) => [...now.slice(1 - MOST), entry]);
    setCode("");
    const done = (changed: Partial<Entry>) => update(entry.key, { ...changed, took: Date.now() - entry.begun });
    try {
      const contextId = await session();
      const commandId = await execute(id, contextId, language, command);
      update(entry.key, { status: "Running", commandId });
      const found = await outcome(id, contextId, commandId, (status) => update(entry.key, { status }));
      done({ status: found.status, outcome: found });
    } catch (error) {
      const said = words(error);
      if (/context/i.test(said)) forget(); // it is gone: the next command begins another one
      done({ status: "Error", failure: said });
      if (alive.current && typed.current === "") setCode(command); // so that it can be run again
    }
  };

  const forget = () => {
    setContext("");
    opening.current = null;
  };
  const stopSession = async () => {
    const old = context;
    forget();
    try {
      await end(id, old);
    } catch {
      // It was gone already.
    }
    attached();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    void run();
  };
  return (
    <section aria-label="Console">
      <Group justify="space-between" gap="xs">
        <Title order={2} size="h6">
          Console
        </Title>
        {context && (
          <Button variant="subtle" color="gray" onClick={() => void stopSession()}>
            End the session
          </Button>
        )}
      </Group>
      <ol className="entries" aria-label="Commands">
        {entries.map((entry) => (
          <EntryView
            key={entry.key}
            entry={entry}
            again={() => {
              setLanguage(entry.language);
              setCode(entry.code);
            }}
            stop={() => {
              if (entry.commandId)
                cancel(id, context, entry.commandId).catch((error: unknown) =>
                  update(entry.key, { failure: words(error) }),
                );
            }}
          />
        ))}
      </ol>
      <form
        aria-label="A command"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <Textarea
          aria-label="Code"
          className="codefield"
          placeholder={HINTS[language]}
          autosize
          minRows={3}
          maxRows={18}
          spellCheck={false}
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
          onKeyDown={press}
        />
        <Group gap={6} mt={6}>
          <NativeSelect
            size="xs"
            aria-label="Language"
            data={LANGUAGES}
            value={language}
            onChange={(event) => setLanguage(event.currentTarget.value as Language)}
          />
          <Button
            type="submit"
            disabled={!runs || code.trim() === ""}
            leftSection={<Icon name="play" size={14} filled />}
          >
            Run
          </Button>
          <Text size="sm" c="dimmed">
            {runs
              ? "Run with Ctrl+Enter. Your text stays in this tab."
              : `The cluster is ${cluster.state ?? "away"}. You can run commands once it is RUNNING.`}
          </Text>
        </Group>
      </form>
    </section>
  );
}

const LOOKS: Record<Entry["status"], string> = {
  Starting: "wait",
  Queued: "wait",
  Running: "wait",
  Cancelling: "wait",
  Finished: "good",
  Cancelled: "off",
  Error: "bad",
};

function EntryView({ entry, again, stop }: { entry: Entry; again: () => void; stop: () => void }) {
  const wrong = entry.failure !== undefined || entry.outcome?.result?.resultType === "error";
  const waits = LOOKS[entry.status] === "wait";
  const look = wrong && entry.status !== "Cancelled" ? "bad" : LOOKS[entry.status];
  return (
    <li className="entry">
      <Group justify="space-between" gap="xs" wrap="nowrap" align="flex-start">
        <pre className="input">
          <span className="soft">{entry.language}</span> {entry.code}
        </pre>
        <Group gap={6} wrap="nowrap">
          <span className={`word ${look}`} role="status">
            {wrong && entry.status === "Finished" ? "Error" : entry.status}
          </span>
          <Took entry={entry} />
          {waits && entry.commandId ? (
            <Button variant="subtle" color="gray" onClick={stop} disabled={entry.status === "Cancelling"}>
              Cancel
            </Button>
          ) : (
            !waits && (
              <Button variant="subtle" color="gray" onClick={again}>
                Edit again
              </Button>
            )
          )}
        </Group>
      </Group>
      {entry.failure && (
        <Text c="var(--mantine-color-error)" role="alert" className="said">
          {entry.failure}
        </Text>
      )}
      {entry.outcome?.result && <ResultView result={entry.outcome.result} />}
    </li>
  );
}

function Took({ entry }: { entry: Entry }) {
  const now = useNow(1000);
  const ms = entry.took ?? now - entry.begun;
  return <span className="soft nowrap">{ms < 1000 && entry.took ? `${ms} ms` : lasting(ms)}</span>;
}
