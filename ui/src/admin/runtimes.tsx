import { Button, Progress, Text } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, body, words } from "../api/client";
import type { components } from "../api/schema";
import { confirm } from "../kit/confirm";
import { PlainTable } from "../kit/plaintable";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { ago, lasting, useNow } from "../lib/time";

type Standing = components["schemas"]["RuntimeStanding"];

const POLL_MS = 2000; // while something is being installed
const IDLE_MS = 15_000;
const MINUTE = 60_000;

const standingsQuery = queryOptions({
  queryKey: ["runtimes", "standing"],
  queryFn: async () => (await body(api.GET("/api/2.1/runtimes"))).runtimes,
  refetchInterval: (query) => (query.state.data?.some((each) => each.installing) ? POLL_MS : IDLE_MS),
});

/** Spark on the server's machine. A cluster's first start installs what it needs; here one can do it before. */
export default function Runtimes() {
  const asked = useQuery(standingsQuery);
  const queries = useQueryClient();
  const now = useNow(MINUTE);
  const changing = useMutation({
    mutationFn: async ({ runtime, what }: { runtime: Standing; what: "install" | "remove" }) => {
      const path = what === "install" ? "/api/2.1/runtimes/install" : "/api/2.1/runtimes/remove";
      await body(api.POST(path, { body: { key: runtime.key } }));
      await queries.invalidateQueries({ queryKey: standingsQuery.queryKey });
    },
    onError: (error) => toast(words(error), { failed: true }),
  });
  const act = async (runtime: Standing, what: "install" | "remove") => {
    const shared = (asked.data ?? []).filter((each) => each.environment === runtime.environment && each !== runtime);
    const also = shared.length > 0 ? ` This also removes ${shared.map((each) => each.key).join(", ")}.` : "";
    const consequence = `The next cluster that needs it installs it again, which takes minutes.${also}`;
    if (what === "install" || (await confirm({ title: `Remove ${runtime.key}?`, consequence, action: "Remove" })))
      changing.mutate({ runtime, what });
  };
  if (asked.data === undefined) return <Reading query={asked} what="Reading the runtimes" />;
  return (
    <>
      <Text size="sm" c="dimmed">
        Runtimes on the machine of the server that answers. A missing runtime is installed by the first cluster that
        needs it.
      </Text>
      <PlainTable heads={["Runtime", "Spark", "State"]} unseen="Actions">
        {[...asked.data].reverse().map((each) => (
          <tr key={each.key}>
            <td data-label="Runtime">
              <span>
                <b>{each.name.split(" (")[0]}</b>
                <span className="under mono">{each.key}</span>
              </span>
            </td>
            <td data-label="Spark">{each.spark_version}</td>
            <td data-label="State">
              <State runtime={each} now={now} />
            </td>
            <td className="end">
              {!each.installing && (
                <Button
                  variant={each.installed ? "subtle" : "default"}
                  color={each.installed ? "gray" : undefined}
                  loading={changing.isPending && changing.variables.runtime.key === each.key}
                  aria-label={`${each.installed ? "Remove" : "Install"} ${each.key}`}
                  onClick={() => void act(each, each.installed ? "remove" : "install")}
                >
                  {each.installed ? "Remove" : "Install"}
                </Button>
              )}
            </td>
          </tr>
        ))}
      </PlainTable>
    </>
  );
}

function untrained(runtime: Standing): string {
  if (runtime.training)
    return `Building the startup cache. Until it is ready, starts are slower: ${runtime.training.message}`;
  if (runtime.training_failure)
    return `Starts are slower, because building the startup cache failed: ${runtime.training_failure}`;
  return "No startup cache yet, so starts are slower. It is built when the machine is idle.";
}

function State({ runtime, now }: { runtime: Standing; now: number }) {
  const doing = runtime.installing;
  if (doing)
    return (
      <div className="installing">
        <span>
          {doing.message}
          {doing.left_s != null && <span className="soft"> about {lasting(doing.left_s * 1000)} left</span>}
        </span>
        <Progress
          value={doing.share * 100}
          size="sm"
          aria-label={`Installing ${runtime.key}`}
          classNames={{ root: "progress" }}
        />
      </div>
    );
  if (runtime.failure)
    return (
      <span>
        <span className="word bad">Failed</span>
        <span className="under said">{runtime.failure}</span>
      </span>
    );
  if (!runtime.installed) return <span className="word off">Not installed</span>;
  return (
    <span>
      <span className="word good">Installed</span>
      <span className="under">
        {[
          runtime.installed_ms ? ago(runtime.installed_ms, now) : "",
          runtime.has_connect ? "" : "without Spark Connect",
        ]
          .filter(Boolean)
          .join(", ")}
      </span>
      {!runtime.trained && <span className="under said">{untrained(runtime)}</span>}
    </span>
  );
}
