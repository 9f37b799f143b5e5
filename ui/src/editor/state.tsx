import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useCallback, useContext, useMemo } from "react";
import { type NodeType, nodeTypesQuery, type Policy, type Pool, policiesQuery, poolsQuery } from "../api/offers";
import { pricesQuery, runtimesQuery } from "../api/queries";
import { useStill } from "../lib/press";
import { type FieldError, type Grant, type Library, type Lock, type Target, type Verdict, validate } from "./calls";
import { pathOf, type Rules, rulesOf, yielded } from "./policy";
import { type Path, read, type Spec, same, write } from "./spec";

export const SETTLE_MS = 250; // without a key, until the server is asked
const AGAIN_MS = 5000;

export interface Offers {
  nodeTypes: NodeType[];
  pools: Pool[];
  policies: Policy[];
  runtimes: Map<string, string>;
  prices: { currency: string; perHour: Map<string, number> } | undefined;
}

/** The form as it is now, and what the server says about it. */
export interface Editor {
  target: Target;
  state: string | undefined; // of the cluster that is edited
  base: Spec; // what is saved, or what the page began with
  draft: Spec;
  set: (path: Path, value: unknown) => void;
  change: (make: (spec: Spec) => Spec) => void;
  choosePolicy: (id: string | undefined) => Promise<void>;
  libraries: Library[];
  setLibraries: (make: (libraries: Library[]) => Library[]) => void;
  libraryError: string | undefined;
  grants?: Grant[]; // what a new cluster is to give; there is a tab for those of one that exists
  setGrants?: (make: (grants: Grant[]) => Grant[]) => void;
  verdict: Verdict | undefined;
  checking: boolean;
  trouble: unknown; // why the server could not say anything
  errors: FieldError[];
  warnings: FieldError[]; // what is accepted, but fails when the cluster starts
  lock: (path: Path) => Lock | undefined;
  rules: Rules;
  offers: Offers;
}

const Context = createContext<Editor | null>(null);

export function useEditor(): Editor {
  const found = useContext(Context);
  if (found === null) throw new Error("There is no editor around this field.");
  return found;
}

export const EditorProvider = ({ editor, children }: { editor: Editor; children: ReactNode }) => (
  <Context.Provider value={editor}>{children}</Context.Provider>
);

export function useOffers(): Offers {
  const nodeTypes = useQuery(nodeTypesQuery).data;
  const pools = useQuery(poolsQuery).data;
  const policies = useQuery(policiesQuery).data;
  const runtimes = useQuery(runtimesQuery).data;
  const prices = useQuery(pricesQuery).data;
  return useMemo(
    () => ({
      nodeTypes: nodeTypes ?? [],
      pools: pools ?? [],
      policies: policies ?? [],
      runtimes: runtimes ?? new Map(),
      prices,
    }),
    [nodeTypes, pools, policies, runtimes, prices],
  );
}

const NO_ERRORS: FieldError[] = [];
const check = (target: Target, state: string | undefined, spec: Spec) => ({
  queryKey: ["validate", target.id ?? "", state ?? "", spec],
  queryFn: () => validate(target, spec),
  staleTime: 10_000,
  gcTime: 60_000,
});

interface Begin {
  target: Target;
  state: string | undefined;
  base: Spec;
  draft: Spec;
  setDraft: (make: (spec: Spec) => Spec) => void;
  libraries: Library[];
  setLibraries: (make: (libraries: Library[]) => Library[]) => void;
  libraryError: string | undefined;
  grants?: Grant[];
  setGrants?: (make: (grants: Grant[]) => Grant[]) => void;
  prefilled: Spec;
}

/** Asks the server about the draft whenever it has not changed for a moment. */
export function useEditorState(begin: Begin): Editor {
  const { target, state, base, draft, setDraft, libraries, setLibraries, libraryError, prefilled } = begin;
  const offers = useOffers();
  const queries = useQueryClient();
  const [settled] = useDebouncedValue(draft, SETTLE_MS);
  const asked = useQuery({
    ...check(target, state, settled),
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.status === "error" ? AGAIN_MS : false),
  });
  const verdict = useStill(asked.data);
  const trouble = useStill(asked.error);
  const set = useCallback((path: Path, value: unknown) => setDraft((now) => write(now, path, value)), [setDraft]);
  const rules = useMemo(
    () => rulesOf(offers.policies.find((each) => each.policy_id === draft.policy_id)),
    [offers.policies, draft.policy_id],
  );
  const choosePolicy = useCallback(
    async (id: string | undefined) => {
      const under = (spec: Spec) =>
        write(write(spec, ["policy_id"], id), ["apply_policy_default_values"], id === undefined ? undefined : true);
      setDraft(under);
      if (id === undefined) return;
      const said = await queries.fetchQuery(check(target, state, under(draft))).catch(() => undefined);
      if (said === undefined) return; // the page says what is wrong as soon as it asks again
      setDraft((now) => (now.policy_id === id ? yielded(now, said, prefilled) : now));
    },
    [draft, setDraft, queries, target, state, prefilled],
  );
  const lock = useCallback(
    (path: Path) => verdict?.locks.find((each) => same(pathOf(each.field), path)),
    [verdict?.locks],
  );
  return {
    target,
    state,
    base,
    draft,
    set,
    change: setDraft,
    choosePolicy,
    libraries,
    setLibraries,
    libraryError,
    ...(begin.grants && begin.setGrants ? { grants: begin.grants, setGrants: begin.setGrants } : {}),
    verdict,
    checking: asked.isFetching || settled !== draft,
    trouble,
    errors: trouble ? NO_ERRORS : (verdict?.errors ?? NO_ERRORS),
    warnings: trouble ? NO_ERRORS : (verdict?.warnings ?? NO_ERRORS),
    lock,
    rules,
    offers,
  };
}

export const errorsAt = (errors: FieldError[], field: string) =>
  errors.filter((each) => each.field === field || each.field.startsWith(`${field}.`));

export const useValueAt = (path: Path) => read(useEditor().draft, path);

/** What the cluster would have there if the field is left as it is. */
export const effectiveAt = (editor: Editor, path: Path) => read(outcome(editor), path);

/** What would come of the draft, as far as the server can tell: with mistakes, what the policy makes of it. */
export const outcome = ({ verdict }: Editor) => verdict?.effective ?? verdict?.under_policy ?? undefined;
