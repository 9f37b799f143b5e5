import { queryOptions } from "@tanstack/react-query";
import { ApiError, api, body, words } from "../api/client";
import type { components } from "../api/schema";
import { offered } from "../api/session";
import type { Level } from "../clusters/rights";
import { leaves, type Spec, same } from "./spec";

type Schemas = components["schemas"];
export type Verdict = Schemas["ClusterValidation"];
export type Lock = Schemas["FieldLock"];
export type FieldError = Schemas["FieldError"];
export type Library = { [Key in keyof Schemas["Library"]]?: unknown };

/** Which call a specification is for: `id` is the cluster that is edited. */
export interface Target {
  id?: string;
}

const create = (spec: Spec, more: object) =>
  body(api.POST("/api/2.1/clusters/create", { body: { ...spec, ...more } as Schemas["CreateCluster"] }));
const edit = (id: string, spec: Spec, more: object) =>
  body(api.POST("/api/2.1/clusters/edit", { body: { ...spec, cluster_id: id, ...more } as Schemas["EditCluster"] }));

/** Whether the workspace can say what it would do without doing it. */
export const checks = () => offered("validate_only");

const NAMED = /^field '([^']+)'/;

/** What the server would say, with every mistake. What it refuses to read at all is a mistake as well. */
export async function validate({ id }: Target, spec: Spec): Promise<Verdict> {
  if (!checks()) return { valid: true, errors: [], locks: [], effective: null, price_per_hour: null };
  try {
    const tried = { validate_only: true };
    return (await (id === undefined ? create(spec, tried) : edit(id, spec, tried))) as Verdict;
  } catch (error) {
    if (!(error instanceof ApiError) || ![400, 404, 409].includes(error.status)) throw error;
    const field = NAMED.exec(error.message)?.[1] ?? "";
    return {
      valid: false,
      errors: [{ field, message: error.message }],
      locks: [],
      effective: null,
      price_per_hour: null,
    };
  }
}

/** Makes the cluster, and answers with its id. Asking again with the same specification makes no second one. */
export async function createCluster(spec: Spec, cloneLibrariesOf: string | undefined): Promise<string> {
  const more = {
    idempotency_token: tokenFor(JSON.stringify([spec, cloneLibrariesOf])),
    ...(cloneLibrariesOf === undefined ? {} : { clone_from: { source_cluster_id: cloneLibrariesOf } }),
  };
  const made = ((await create(spec, more)) as Schemas["CreateClusterResponse"]).cluster_id;
  token = undefined;
  return made;
}

let token: { of: string; text: string } | undefined;

function tokenFor(asked: string): string {
  if (token?.of !== asked) {
    const random = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is not there on plain HTTP
    token = { of: asked, text: `ui-${[...random].map((each) => each.toString(16).padStart(2, "0")).join("")}` };
  }
  return token.text;
}

/** Changes the cluster, unless somebody else has done so since `base` was read: then ApiError with status 409. A workspace that
 * does not look at `expected_spec` is asked before. */
export async function editCluster(id: string, base: Spec, spec: Spec): Promise<void> {
  if (!checks()) {
    const now = await body(api.GET("/api/2.1/clusters/get", { params: { query: { cluster_id: id } } }));
    if (!same(now.spec, base)) throw new ApiError(409, "ABORTED", "Someone else changed the cluster.", "");
    await edit(id, spec, {});
    return;
  }
  await edit(id, spec, { expected_spec: base });
}

/** Changes only the size of a running cluster, which needs no restart. */
export async function resizeCluster(id: string, spec: Spec): Promise<void> {
  const size = { num_workers: spec.num_workers ?? null, autoscale: spec.autoscale ?? null };
  await body(api.POST("/api/2.1/clusters/resize", { body: { cluster_id: id, ...size } as Schemas["ResizeCluster"] }));
}

export async function changeLibraries(id: string, gone: Library[], added: Library[]): Promise<void> {
  const call = (libraries: Library[]) => ({ body: { cluster_id: id, libraries: libraries as Schemas["Library"][] } });
  if (gone.length > 0) await body(api.POST("/api/2.0/libraries/uninstall", call(gone)));
  if (added.length > 0) await body(api.POST("/api/2.0/libraries/install", call(added)));
}

/** The libraries that a cluster will have at its next start. */
export const ownLibrariesQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "own-libraries"],
    queryFn: async () => {
      const asked = api.GET("/api/2.0/libraries/cluster-status", { params: { query: { cluster_id: id } } });
      const found = (await body(asked)).library_statuses ?? [];
      return found.filter((each) => each.status !== "UNINSTALL_ON_RESTART").map((each) => each.library as Library);
    },
  });

/** Who last changed the cluster's specification, and when. */
export const lastEditQuery = (id: string) =>
  queryOptions({
    queryKey: ["cluster", id, "last-edit"],
    queryFn: async () => {
      const asked = { cluster_id: id, event_types: ["EDITED", "RESIZING"], limit: 5, order: "DESC" };
      const found = (await body(api.POST("/api/2.1/clusters/events", { body: asked as Schemas["GetEvents"] }))).events;
      const one = found?.find((each) => each.details?.user);
      return one === undefined ? null : { user: one.details?.user ?? "", at: one.timestamp };
    },
  });

/** Why the server does not take a field; null if it does. It is asked, since only it knows. */
export const refusalQuery = (field: string, value: unknown, around: Spec) =>
  queryOptions({
    queryKey: ["refusal", field],
    staleTime: Number.POSITIVE_INFINITY,
    enabled: leaves(around).size > 0,
    queryFn: async () => {
      const { spark_version, node_type_id } = around;
      const verdict = await validate({}, { spark_version, node_type_id, num_workers: 1, [field]: value });
      return verdict.errors.find((each) => each.field === field)?.message ?? null;
    },
  });

const STARTS = 6; // clusters whose last starts are looked at
const BEGINS = new Set(["CREATING", "STARTING", "RESTARTING"]);

export interface Starts {
  medianMs: number;
  count: number;
}

/** How long the last starts of such clusters took, as their events say; null if there was none. */
export const startsQuery = (key: string, ids: string[]) =>
  queryOptions({
    queryKey: ["starts", key],
    staleTime: 300_000,
    queryFn: async (): Promise<Starts | null> => {
      const asked = ids.slice(0, STARTS).map(async (id) => {
        const body_ = { cluster_id: id, event_types: [...BEGINS, "RUNNING"], limit: 20 };
        return (await body(api.POST("/api/2.1/clusters/events", { body: body_ as Schemas["GetEvents"] }))).events ?? [];
      });
      const lasted: number[] = [];
      for (const events of await Promise.all(asked)) {
        let begun: number | undefined;
        for (const event of events.reverse()) {
          if (BEGINS.has(event.type)) begun = event.timestamp;
          else if (begun !== undefined) {
            lasted.push(event.timestamp - begun);
            begun = undefined;
          }
        }
      }
      lasted.sort((one, other) => one - other);
      const middle = lasted[Math.floor(lasted.length / 2)];
      return middle === undefined ? null : { medianMs: middle, count: lasted.length };
    },
  });

/** A permission that a new cluster is to give. */
export interface Grant {
  kind: "user_name" | "group_name" | "service_principal_name";
  name: string;
  level: Level;
}

/** Without rows in which nobody was named. */
export const named = (grants: Grant[]) => grants.filter((each) => each.name.trim() !== "");

/** Gives them one by one, so that what is wrong with one keeps back no other. Returns what the server says against each. */
export async function give(id: string, grants: Grant[]): Promise<string[]> {
  const refused: string[] = [];
  for (const { kind, name, level } of named(grants)) {
    try {
      const access_control_list = [{ [kind]: name.trim(), permission_level: level }];
      const params = { path: { object_id: id } };
      await body(api.PATCH("/api/2.0/permissions/clusters/{object_id}", { params, body: { access_control_list } }));
    } catch (error) {
      refused.push(`${level} for ${name.trim()}: ${words(error)}`);
    }
  }
  return refused;
}
