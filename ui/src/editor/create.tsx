import { Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { words } from "../api/client";
import { nodeTypesQuery } from "../api/offers";
import { clusterQuery, runtimesQuery } from "../api/queries";
import { session } from "../api/session";
import { nameOf } from "../clusters/facts";
import { toast } from "../kit/toasts";
import { Trouble } from "../kit/trouble";
import { beginning, carried } from "./begin";
import {
  changeLibraries,
  createCluster,
  type Grant,
  give,
  type Library,
  named,
  ownLibrariesQuery,
  validate,
} from "./calls";
import "./editor.css";
import { filled } from "./libraries";
import { changes, type Spec, same, specOf } from "./spec";
import { useEditorState, useOffers } from "./state";
import { Workspace } from "./workspace";

/** A new cluster, from nothing or as a copy of another one. */
export function CreatePage() {
  const { clone, pool, policy } = useSearch({ from: "/compute/create" });
  const offers = useOffers();
  const ready = [useQuery(nodeTypesQuery), useQuery(runtimesQuery)];
  const source = useQuery({ ...clusterQuery(clone ?? ""), enabled: clone !== undefined });
  const libraries = useQuery({ ...ownLibrariesQuery(clone ?? ""), enabled: clone !== undefined });
  const [user, setUser] = useState<string>();
  useEffect(() => {
    document.title = "Create compute - Brickyard";
    session.get().then(
      (found) => setUser(found.user_name),
      () => setUser(""),
    );
  }, []);
  const needed = clone === undefined ? ready : [...ready, source, libraries];
  const failed = needed.find((each) => each.isError && each.data === undefined);
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (user === undefined || needed.some((each) => each.data === undefined)) return <Waiting />;
  const copy = source.data;
  if (clone !== undefined && copy !== undefined) {
    const spec: Spec = { ...specOf(copy), cluster_name: `${nameOf(copy)} (copy)` };
    return <Create key={clone} initial={spec} prefilled={{}} clone={clone} cloned={libraries.data ?? []} />;
  }
  const usual = beginning(offers, user);
  const { node_type_id: _, ...pooled } = usual; // a pool decides the node type
  const initial: Spec = pool === undefined ? usual : { ...pooled, instance_pool_id: pool };
  return <Create key={`new ${pool} ${policy}`} initial={initial} prefilled={initial} cloned={[]} policy={policy} />;
}

export function Waiting() {
  return (
    <Stack className="content" aria-busy="true" role="status" aria-label="Reading what can be chosen">
      <Skeleton height={28} width={240} />
      <Skeleton height={320} maw={720} />
    </Stack>
  );
}

interface Beginning {
  initial: Spec;
  prefilled: Spec;
  clone?: string;
  cloned: Library[];
  policy?: string; // which is chosen as if by hand
}

function Create({ initial, prefilled, clone, cloned, policy }: Beginning) {
  const navigate = useNavigate();
  const [from] = useState(() => ({ ...(carried.get()?.id === undefined ? carried.get() : null) }));
  const [base] = useState(initial);
  const [draft, setDraft] = useState<Spec>(from.spec ?? initial);
  const [libraries, setLibraries] = useState<Library[]>(from.libraries ?? cloned);
  const [grants, setGrants] = useState<Grant[]>([]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  useEffect(() => carried.set(null), []);
  const editor = useEditorState({
    target: NEW,
    state: undefined,
    base,
    draft,
    setDraft,
    libraries,
    setLibraries,
    libraryError: undefined,
    grants,
    setGrants,
    prefilled,
  });
  const choose = useRef(editor.choosePolicy);
  useEffect(() => {
    if (policy !== undefined) void choose.current(policy);
  }, [policy]);
  const act = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const verdict = await validate(NEW, draft);
      if (!verdict.valid) {
        setProblem(verdict.errors.map((each) => each.message).join("\n"));
        return;
      }
      const wanted = filled(libraries);
      const copies = clone !== undefined && same(wanted, cloned);
      const id = await createCluster(draft, copies ? clone : undefined);
      const name = draft.cluster_name || id;
      const refused = await give(id, grants);
      for (const each of refused) toast(`${name} was created without this permission: ${each}`, { failed: true });
      if (!copies && wanted.length > 0) {
        try {
          await changeLibraries(id, [], wanted);
        } catch (error) {
          carried.set({ id, libraries: wanted, problem: words(error) });
          toast(`${name} was created, but its libraries were refused: ${words(error)}`, { failed: true });
          await navigate({ to: "/compute/clusters/$id/edit", params: { id }, ignoreBlocker: true });
          return;
        }
      }
      toast(`${name} was created and is starting.`);
      const search = refused.length > 0 ? ({ tab: "permissions" } as const) : {};
      await navigate({ to: "/compute/clusters/$id", params: { id }, search, ignoreBlocker: true });
    } catch (error) {
      setProblem(words(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Workspace
      title={clone === undefined ? "Create compute" : "Clone compute"}
      above={
        <nav aria-label="Breadcrumb" className="crumbs">
          <Link to="/compute">Compute</Link>
        </nav>
      }
      editor={editor}
      dirty={changes(base, draft).length > 0 || !same(libraries, cloned) || named(grants).length > 0}
      action="Create compute"
      act={() => void act()}
      busy={busy}
      cancel={() => void navigate({ to: "/compute", search: {} })}
      problem={problem}
    />
  );
}

const NEW = {};
