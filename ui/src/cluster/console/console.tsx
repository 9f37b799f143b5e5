import "./console.css";
import { Button, Group, Text, Tooltip } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";
import { ApiError, type Cluster, words } from "../../api/client";
import { ACTIONS, useActions } from "../../clusters/actions";
import type { May } from "../../clusters/rights";
import { CatalogNames } from "../../code/catalog";
import { languagesQuery } from "../../code/commands";
import { Icon } from "../../kit/icons";
import { useValue } from "../../lib/value";
import { CellView } from "./cell";
import { useCellFocus } from "./cellfocus";
import { notebookOf } from "./notebook";

interface Props {
  cluster: Cluster;
  may: May;
}

/** Cells that run on a cluster, in a session of the user's own: they share their variables, and wait for one another. */
export function Console({ cluster, may }: Props) {
  const id = cluster.cluster_id;
  const queries = useQueryClient();
  const attached = useCallback(
    () => void queries.invalidateQueries({ queryKey: ["cluster", id, "attached"] }),
    [queries, id],
  );
  const notebook = notebookOf(id, attached);
  const cells = useValue(notebook.cells);
  const context = useValue(notebook.context);
  const names = useMemo(() => new CatalogNames(queries), [queries]);
  const languages = useQuery(languagesQuery(id));
  const known = languages.data ?? ["python", "sql"];
  const refused = languages.error instanceof ApiError && languages.error.status === 403;
  const runs = (cluster.state === "RUNNING" || cluster.state === "RESIZING") && !refused;
  const started = String(cluster.last_restarted_time ?? cluster.start_time ?? "");
  useEffect(() => {
    if (runs) notebook.startedAgain(started);
  }, [notebook, runs, started]);

  const { place, go, goTo, remove } = useCellFocus(cells, notebook);
  return (
    <section aria-label="Console" className="console">
      {refused ? (
        <Text role="alert" c="var(--mantine-color-error)">
          {words(languages.error)}
        </Text>
      ) : (
        !runs && <Away cluster={cluster} may={may} />
      )}
      <ol className="cells" aria-label="Cells" ref={place}>
        {cells.map((cell, at) => (
          <CellView
            key={cell.id}
            cell={known.includes(cell.language) ? cell : { ...cell, language: known[0] ?? "python" }}
            number={at + 1}
            notebook={notebook}
            languages={known}
            names={names}
            runs={runs}
            go={(by, edit, add) => go(cell.id, by, edit, add)}
            goTo={goTo}
            remove={() => remove(cell.id)}
          />
        ))}
      </ol>
      <Group gap="xs">
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => goTo(notebook.add(cells.at(-1)?.id ?? 0, 1), true)}
        >
          Add cell
        </Button>
        <Button variant="subtle" color="gray" onClick={() => notebook.clear()}>
          Clear all
        </Button>
        {context && (
          <Button variant="subtle" color="gray" onClick={() => void notebook.endSession()}>
            End the session
          </Button>
        )}
        <Text size="sm" c="dimmed" className="keyhelp">
          Ctrl+Enter runs, Shift+Enter runs and goes on, ↑ in an empty cell recalls, Esc leaves the code.
        </Text>
      </Group>
    </section>
  );
}

/** The cluster takes no commands now. */
export function Away({ cluster, may }: Props) {
  const { busy, act } = useActions();
  const starts = ACTIONS.start.fits(cluster, false);
  const allowed = may(ACTIONS.start.takes);
  return (
    <Group gap="xs" role="status">
      <Text size="sm">The cluster is {cluster.state ?? "away"}. You can run commands once it is RUNNING.</Text>
      {starts && (
        <Tooltip label={`You need ${ACTIONS.start.takes} on this cluster`} disabled={allowed}>
          <Button
            disabled={!allowed || busy.has(cluster.cluster_id)}
            leftSection={<Icon name="play" size={14} filled />}
            onClick={() => void act("start", [cluster])}
          >
            Start the cluster
          </Button>
        </Tooltip>
      )}
    </Group>
  );
}
