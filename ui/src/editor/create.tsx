import { Skeleton, Stack } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { words } from "../api/client";
import { nodeTypesQuery } from "../api/offers";
import { clusterQuery, clustersQuery, runtimesQuery } from "../api/queries";
import { nameOf } from "../clusters/facts";
import { lastList } from "../kit/lastlist";
import { useTitle } from "../kit/title";
import { toast } from "../kit/toasts";
import { Trouble } from "../kit/trouble";
import { beginning, carried, copyName, lastOf } from "./begin";
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
import { useReturn } from "../kit/return";
import { useTyped } from "./draftstore";
import { filled } from "./librarykinds";
import { changes, type Spec, same, specOf } from "./spec";
import { useEditorState, useOffers } from "./state";
import { Unsaved } from "./unsaved";
import { useUser } from "./user";
import { Workspace } from "./workspace";

/** A new cluster, from nothing, as a copy of another one, or like the user's last one. */
export function CreatePage() {
  const { clone, pool, policy, like } = useSearch({ from: "/compute/create" });
  const offers = useOffers();
  const user = useUser();
  const clusters = useQuery(clustersQuery);
  const last = lastOf(clusters.data ?? [], user ?? "");
  const id = clone ?? (like === undefined ? undefined : last?.cluster_id);
  const source = useQuery({ ...clusterQuery(id ?? ""), enabled: id !== undefined });
  const libraries = useQuery({ ...ownLibrariesQuery(id ?? ""), enabled: id !== undefined });
  const ready = [useQuery(nodeTypesQuery), useQuery(runtimesQuery)];
  useTitle("Create compute");
  const needed = [
    ...ready,
    ...(id === undefined ? [] : [source, libraries]),
    ...(like === undefined ? [] : [clusters]),
  ];
  const failed = needed.find((each) => each.isError && each.data === undefined);
  if (failed) return <Trouble error={failed.error} retry={() => void failed.refetch()} />;
  if (user === undefined || needed.some((each) => each.data === undefined)) return <Waiting />;
  const copy = source.data;
  if (id !== undefined && copy !== undefined) {
    const names = (clusters.data ?? []).map(nameOf);
    const spec: Spec = { ...specOf(copy), cluster_name: copyName(nameOf(copy), names) };
    const title = clone === undefined ? "Create compute" : "Clone compute";
    const cloned = libraries.data ?? [];
    return <Create key={id} user={user} title={title} initial={spec} prefilled={NOTHING} clone={id} cloned={cloned} />;
  }
  const usual = beginning(offers, user);
  const { node_type_id: _, ...pooled } = usual; // a pool decides the node type
  const initial: Spec = pool === undefined ? usual : { ...pooled, instance_pool_id: pool };
  return (
    <Create
      key={`new ${pool} ${policy}`}
      user={user}
      title="Create compute"
      initial={initial}
      prefilled={initial}
      cloned={[]}
      policy={policy}
      last={pool === undefined && policy === undefined && last !== undefined ? nameOf(last) : undefined}
    />
  );
}

const NOTHING: Spec = {};

export function Waiting() {
  return (
    <Stack className="content" aria-busy="true" role="status" aria-label="Reading what can be chosen">
      <Skeleton height={28} width={240} />
      <Skeleton height={320} maw={720} />
    </Stack>
  );
}

interface Beginning {
  user: string;
  title: string;
  initial: Spec;
  prefilled: Spec;
  clone?: string;
  cloned: Library[];
  policy?: string; // which is chosen as if by hand
  last?: string; // the name of the user's last cluster, which this one can begin like
}

function Create({ user, title, initial, prefilled, clone, cloned, policy, last }: Beginning) {
  const navigate = useNavigate();
  const { back, keep } = useTyped(
    user,
    `create ${clone ?? ""} ${initial.instance_pool_id ?? ""} ${policy ?? ""}`,
    initial,
  );
  const [from] = useState(() => ({ ...(carried.get()?.id === undefined ? carried.get() : null) }));
  const [base] = useState(initial);
  const [draft, setDraft] = useState<Spec>(from.spec ?? back?.draft ?? initial);
  const [libraries, setLibraries] = useState<Library[]>(from.libraries ?? back?.libraries ?? cloned);
  const [grants, setGrants] = useState<Grant[]>(back?.grants ?? []);
  const [restored, setRestored] = useState(back !== undefined && from.spec === undefined);
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
  const governed = useRef(restored);
  useEffect(() => {
    if (policy !== undefined && !governed.current) void choose.current(policy);
  }, [policy]);
  const dirty = changes(base, draft).length > 0 || !same(libraries, cloned) || named(grants).length > 0;
  useEffect(() => keep(dirty ? { base, draft, libraries, grants } : undefined));
  const discard = () => {
    setDraft(initial);
    setLibraries(cloned);
    setGrants([]);
    setRestored(false);
    if (policy !== undefined) void editor.choosePolicy(policy);
  };
  const create = useMutation({
    mutationFn: async () => {
      const verdict = await validate(NEW, draft);
      if (!verdict.valid) throw new Error(verdict.errors.map((each) => each.message).join("\n"));
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
    },
  });
  return (
    <Workspace
      title={title}
      above={
        <nav aria-label="Breadcrumb" className="crumbs">
          <Link to="/compute" search={lastList(undefined)}>
            Compute
          </Link>
        </nav>
      }
      editor={editor}
      dirty={dirty}
      action="Create compute"
      act={() => create.mutate()}
      busy={create.isPending}
      cancel={useReturn(() => navigate({ to: "/compute", search: {} }))}
      problem={create.error === null ? undefined : words(create.error)}
      news={
        restored &&
        back !== undefined && (
          <Unsaved at={back.at} lost={back.lost} discard={discard} close={() => setRestored(false)} />
        )
      }
      hint={
        last !== undefined && (
          <p className="help">
            Or begin like your last one:{" "}
            <Link to="/compute/create" search={{ like: "last" }}>
              {last}
            </Link>
          </p>
        )
      }
    />
  );
}

const NEW = {};
