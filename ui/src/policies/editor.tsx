import "../cluster/cluster.css";
import "./policies.css";
import { Button, Loader, NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, body } from "../api/client";
import { familiesQuery, policyQuery, refreshPolicies } from "../api/offers";
import { EditorFrame, Part } from "../editor/frame";
import { LibraryRows } from "../editor/libraries";
import { useSaving } from "../editor/saving";
import { Unsaved } from "../editor/unsaved";
import { useUser } from "../editor/user";
import { Crumbs } from "../kit/crumbs";
import { BeingRead } from "../kit/objectpage";
import { useReturn } from "../kit/return";
import { useTitle } from "../kit/title";
import { pretty } from "../lib/json";
import type { Problem } from "./calls";
import { type Draft, draftOf, sourceOf, wanted } from "./draft";
import { Trial, triesPolicies, useTrial } from "./trial";

const JsonEditor = lazy(() => import("../editor/json"));
const POLICIES = { tab: "policies", label: "Policies" } as const;
const OWN = "own"; // in place of a family

const EXAMPLE = `{
  "num_workers": { "type": "range", "maxValue": 4, "isOptional": true },
  "autotermination_minutes": { "type": "fixed", "value": 60 }
}`;

export function CreatePolicyPage() {
  const { clone, family } = useSearch({ from: "/compute/policies/create" });
  const source = useQuery({ ...policyQuery(clone ?? ""), enabled: clone !== undefined });
  const user = useUser();
  useTitle("Create policy");
  if ((clone !== undefined && source.data === undefined) || user === undefined)
    return <BeingRead {...POLICIES} noun="policy" query={source} />;
  const copied = source.data && draftOf(source.data);
  const empty: Draft = {
    name: "",
    description: "",
    family: family ?? "",
    definition: EXAMPLE,
    overrides: "{}",
    most: undefined,
    libraries: [],
  };
  const initial = clone !== undefined && copied ? { ...copied, name: `${copied.name} (copy)` } : empty;
  return <Form key={`${clone} ${family}`} user={user} initial={initial} />;
}

export function EditPolicyPage() {
  const { id } = useParams({ from: "/compute/policies/$id/edit" });
  const asked = useQuery(policyQuery(id));
  const user = useUser();
  const name = asked.data?.name ?? id;
  useTitle(`Edit ${name}`);
  if (asked.data === undefined || user === undefined) return <BeingRead {...POLICIES} noun="policy" query={asked} />;
  return (
    <Form key={id} user={user} id={id} initial={draftOf(asked.data)} fixedFamily={asked.data.is_default ?? false} />
  );
}

interface FormProps {
  user: string;
  id?: string;
  initial: Draft;
  fixedFamily?: boolean;
}

function Form({ user, id, initial: given, fixedFamily = false }: FormProps) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [initial] = useState(given); // a later answer of the server is for the one that compares
  const [draft, setDraft] = useState(initial);
  const set = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const trying = useTrial(sourceOf(draft));
  const fields = wanted(draft);
  const saving = useSaving({
    noun: "policy",
    id,
    user,
    initial,
    draft,
    setDraft,
    name: draft.name,
    fieldsOf: wanted,
    read: async (policy) => wanted(draftOf(await queries.fetchQuery({ ...policyQuery(policy), staleTime: 0 }))),
    create: async () => (await body(api.POST("/api/2.0/policies/clusters/create", { body: fields }))).policy_id,
    edit: (policy_id) => body(api.POST("/api/2.0/policies/clusters/edit", { body: { ...fields, policy_id } })),
    done: async (saved) => {
      void refreshPolicies(queries);
      await navigate({ to: "/compute/policies/$id", params: { id: saved }, search: {}, ignoreBlocker: true });
    },
  });
  const cancel = useReturn(() =>
    id === undefined
      ? navigate({ to: "/compute", search: { tab: "policies" } })
      : navigate({ to: "/compute/policies/$id", params: { id }, search: {} }),
  );
  const { restored, ...frame } = saving;
  return (
    <EditorFrame
      {...frame}
      className="policy"
      above={<Crumbs {...POLICIES} />}
      cancel={cancel}
      news={restored && <Unsaved {...restored} />}
    >
      <div className="editor-columns">
        <div className="parts">
          <Part title="Basics" narrow>
            <TextInput label="Name" value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
            <Textarea
              label="Description"
              size="xs"
              autosize
              minRows={1}
              value={draft.description}
              onChange={(event) => set({ description: event.currentTarget.value })}
            />
          </Part>
          <Definition draft={draft} set={set} fixedFamily={fixedFamily} problems={trying.problems} />
          <Part title="Limit" narrow>
            <NumberInput
              label="Clusters per user"
              description="Active clusters at the same time."
              w={220}
              clampBehavior="none"
              allowDecimal={false}
              placeholder="No limit"
              value={draft.most ?? ""}
              onChange={(next) => set({ most: typeof next === "number" ? next : undefined })}
            />
          </Part>
          <Part title="Libraries">
            <LibraryRows
              libraries={draft.libraries}
              change={(make) => setDraft((now) => ({ ...now, libraries: make(now.libraries) }))}
              help="If set, clusters of this policy have exactly these libraries from their next start on."
            />
          </Part>
        </div>
        {triesPolicies() && <Trial trying={trying} />}
      </div>
    </EditorFrame>
  );
}

interface DefinitionProps {
  draft: Draft;
  set: (part: Partial<Draft>) => void;
  fixedFamily: boolean;
  problems: Problem[];
}

/** Where the rules come from, and what is wrong with them. */
function Definition({ draft, set, fixedFamily, problems }: DefinitionProps) {
  const families = useQuery(familiesQuery).data ?? [];
  const [go, setGo] = useState<{ to: string }>();
  const family = families.find((each) => each.policy_family_id === draft.family);
  const choose = (next: string | null) => set({ family: next === OWN ? "" : (next ?? "") });
  return (
    <Part title="Rules">
      <Select
        className="narrow"
        label="Rules from"
        allowDeselect={false}
        disabled={fixedFamily}
        description={
          fixedFamily
            ? "The family of a default policy cannot be changed."
            : (family?.description ?? "Each key is the path of an attribute, each value one rule.")
        }
        data={[
          { value: OWN, label: "Custom definition" },
          ...families.map((each) => ({ value: each.policy_family_id, label: `Family: ${each.name}` })),
        ]}
        value={draft.family || OWN}
        onChange={choose}
      />
      {family && (
        <details>
          <summary>The family's rules</summary>
          <Suspense fallback={<Fallback />}>
            <JsonEditor
              text={pretty(family.definition)}
              label="The family's rules"
              readOnly
              height={80}
              onChange={() => {}}
            />
          </Suspense>
          <Button variant="default" mt={6} onClick={() => set({ family: "", definition: pretty(family.definition) })}>
            Copy to a custom definition
          </Button>
        </details>
      )}
      <div>
        <div className="label">{draft.family ? "Overrides" : "Definition"}</div>
        <Suspense fallback={<Fallback />}>
          {draft.family ? (
            <JsonEditor
              key="overrides"
              text={draft.overrides}
              label="Overrides"
              height={160}
              go={go}
              onChange={(overrides) => set({ overrides })}
            />
          ) : (
            <JsonEditor
              key="definition"
              text={draft.definition}
              label="Definition"
              height={320}
              go={go}
              onChange={(definition) => set({ definition })}
            />
          )}
        </Suspense>
        {draft.family && <p className="help">Overrides replace the family's rules, path by path.</p>}
      </div>
      <div role="status" aria-live="polite" aria-label="Errors in the policy">
        <ul className="problems">
          {problems.map((each) => (
            <li key={each.path + each.message} className="wrong">
              {each.path === "" ? (
                each.message
              ) : (
                <button type="button" className="textbutton" onClick={() => setGo({ to: each.path })}>
                  <code>{each.path}</code>: {each.message}
                </button>
              )}
            </li>
          ))}
        </ul>
      </div>
    </Part>
  );
}

const Fallback = () => <Loader size="sm" role="status" aria-label="Loading the editor" />;
