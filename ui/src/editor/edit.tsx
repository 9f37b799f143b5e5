import { Alert, Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError, type Cluster, isGone, words } from "../api/client";
import { connection, POLL_MS } from "../api/live";
import { clusterQuery } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { StateWord } from "../clusters/state";
import { lastList } from "../kit/lastlist";
import { toast } from "../kit/toasts";
import { Trouble } from "../kit/trouble";
import { useValue } from "../lib/value";
import { carried } from "./begin";
import { changeLibraries, editCluster, type Library, lastEditQuery, ownLibrariesQuery, resizeCluster } from "./calls";
import { Waiting } from "./create";
import "./editor.css";
import { useReturn } from "../kit/return";
import { useTitle } from "../kit/title";
import { useTyped } from "./draftstore";
import { restartFields } from "./fields";
import { filled } from "./librarykinds";
import { Review } from "./review";
import { changes, merge, type Spec, same } from "./spec";
import { useEditorState } from "./state";
import { TheirChanges, type Theirs } from "./theirs";
import { Unsaved } from "./unsaved";
import { useUser } from "./user";
import { Workspace } from "./workspace";

export function EditPage() {
  const { id } = useParams({ from: "/compute/clusters/$id/edit" });
  const live = useValue(connection) === "live";
  const cluster = useQuery({ ...clusterQuery(id), refetchInterval: live ? false : POLL_MS });
  const libraries = useQuery(ownLibrariesQuery(id));
  const user = useUser();
  useTitle("Edit compute");
  const failed = [cluster, libraries].find((each) => each.isError && each.data === undefined);
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (cluster.data === undefined || libraries.data === undefined || user === undefined) return <Waiting />;
  if (cluster.data.spec == null) return <Trouble error={new Error(UNTOLD)} retry={() => void cluster.refetch()} />;
  const { error } = cluster;
  const gone = error instanceof ApiError && (error.status === 403 || isGone(error)) ? error : undefined;
  return <Edit key={id} user={user} cluster={cluster.data} installed={libraries.data} gone={gone} />;
}

const CONFLICT = 409;
const UNTOLD =
  "This workspace does not return the full specification (`spec`). Saving would reset the fields that are missing here.";

interface Props {
  user: string;
  cluster: Cluster;
  installed: Library[];
  gone: ApiError | undefined;
}

function Edit({ user, cluster, installed, gone }: Props) {
  const id = cluster.cluster_id;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const saved = (cluster.spec ?? {}) as Spec;
  const [from] = useState(() => (carried.get()?.id === id ? carried.get() : null));
  const { back, keep } = useTyped(user, `edit ${id}`, saved);
  const [restored, setRestored] = useState(back !== undefined && from === null);
  const [base, setBase] = useState(saved);
  const [draft, setDraft] = useState(back?.draft ?? saved);
  const [had, setHad] = useState(installed);
  const [libraries, setLibraries] = useState<Library[]>(from?.libraries ?? back?.libraries ?? installed);
  const [libraryError, setLibraryError] = useState(from?.problem);
  const [theirs, setTheirs] = useState<Theirs | undefined>(
    back?.conflicts.length ? { found: [], conflicts: back.conflicts } : undefined,
  );
  const [reviewing, setReviewing] = useState(false);
  const saving = useRef(false);
  useEffect(() => carried.set(null), []);
  useEffect(() => {
    if (saving.current || same(saved, base)) return;
    const { merged, conflicts } = merge(base, draft, saved);
    setTheirs({ found: changes(base, saved), conflicts });
    setBase(saved);
    setDraft(merged);
    void queries.invalidateQueries({ queryKey: lastEditQuery(id).queryKey });
  }, [saved, base, draft, queries, id]);
  const target = useMemo(() => ({ id }), [id]);
  const editor = useEditorState({
    target,
    state: cluster.state ?? undefined,
    base,
    draft,
    setDraft,
    libraries,
    setLibraries,
    libraryError,
    prefilled: NOTHING,
  });
  const found = changes(base, draft);
  const wanted = filled(libraries);
  const librariesChanged = {
    gone: had.filter((each) => !wanted.some((other) => same(each, other))),
    added: wanted.filter((each) => !had.some((other) => same(each, other))),
  };
  const dirty = found.length + librariesChanged.gone.length + librariesChanged.added.length > 0;
  const resize = cluster.state === "RUNNING" && found.length === 1 && isPlainSize(found[0]?.path, base, draft);
  useEffect(() => keep(dirty ? { base, draft, libraries } : undefined));
  const save = useMutation({
    onMutate: () => {
      setLibraryError(undefined);
      saving.current = true;
    },
    mutationFn: async () => {
      try {
        await changeLibraries(id, librariesChanged.gone, librariesChanged.added);
        setHad(wanted);
      } catch (error) {
        if (error instanceof ApiError) setLibraryError(words(error));
        throw error;
      }
      if (resize) await resizeCluster(id, draft);
      else if (found.length > 0) await editCluster(id, base, draft);
      toast(
        `${nameOf(cluster)} was saved${cluster.state !== "RUNNING" || found.length === 0 ? "" : resize ? " and is resizing" : restartFields(editor).length > 0 ? " and is restarting" : ""}.`,
      );
      await navigate({ to: "/compute/clusters/$id", params: { id }, search: {}, ignoreBlocker: true });
    },
    onError: async () => {
      saving.current = false;
      setReviewing(false);
      await queries.invalidateQueries({ queryKey: clusterQuery(id).queryKey });
    },
  });
  const discard = () => {
    setDraft(base);
    setLibraries(had);
    setTheirs(undefined);
    setRestored(false);
  };
  const copy = () => {
    carried.set({ spec: draft, libraries });
    void navigate({ to: "/compute/create", search: {}, ignoreBlocker: true });
  };
  const news = (
    <>
      {gone && (
        <Alert variant="default" className="notice bad" role="alert" title="This cluster no longer exists">
          <p>{words(gone)} You can create a new cluster from your changes.</p>
          <Button onClick={copy}>Create a new cluster from it</Button>
        </Alert>
      )}
      {restored && back !== undefined && (
        <Unsaved at={back.at} lost={back.lost} discard={discard} close={() => setRestored(false)} />
      )}
      {theirs && (
        <TheirChanges
          id={id}
          theirs={theirs}
          change={setDraft}
          settle={(conflict) =>
            setTheirs({ ...theirs, conflicts: theirs.conflicts.filter((each) => each !== conflict) })
          }
          close={() => setTheirs(undefined)}
        />
      )}
    </>
  );
  return (
    <>
      <Workspace
        title={nameOf(cluster)}
        above={
          <nav aria-label="Breadcrumb" className="crumbs">
            <Link to="/compute" search={lastList(undefined)}>
              Compute
            </Link>{" "}
            <span aria-hidden="true">/</span> Edit <StateWord cluster={cluster} />
          </nav>
        }
        editor={editor}
        dirty={dirty}
        action="Review and save"
        act={() => editor.errors.length === 0 && setReviewing(true)}
        busy={false}
        blocked={gone ? "The cluster no longer exists" : dirty ? undefined : "No changes to save"}
        cancel={useReturn(() => navigate({ to: "/compute/clusters/$id", params: { id }, search: {} }))}
        problem={save.error === null ? undefined : problemOf(save.error)}
        news={news}
      />
      {reviewing && (
        <Review
          editor={editor}
          found={found}
          libraries={librariesChanged}
          resize={resize}
          busy={save.isPending}
          save={() => save.mutate()}
          close={() => setReviewing(false)}
        />
      )}
    </>
  );
}

const NOTHING: Spec = {};

const problemOf = (error: unknown) =>
  error instanceof ApiError && error.status === CONFLICT
    ? "Someone else saved this cluster first. Their changes are merged below. Review them and save again."
    : words(error);

/** Whether only the number of workers is another one: not whether there are any. */
const isPlainSize = (path: string[] | undefined, before: Spec, after: Spec) =>
  path?.[0] === "size" && Boolean(before.is_single_node) === Boolean(after.is_single_node);
