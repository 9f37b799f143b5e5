import { createRootRoute, createRoute, createRouter, Link, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { readAdminSearch } from "../admin/search";
import { readClusterSearch } from "../cluster/search";
import { ComputePage } from "../compute/page";
import type { FilesSearch } from "../files/search";
import type { JobsSearch, JobTab } from "../jobs/search";
import { readSearch } from "../kit/listsearch";
import { styled } from "../kit/look";
import { Trouble } from "../kit/trouble";
import { readCreateSearch, readPolicySearch } from "../policies/search";
import { readPoolSearch } from "../pools/search";
import type { RunsSearch } from "../runs/search";
import type { SpendSearch } from "../spend/search";
import type { CatalogSearch, EditorSearch, HistorySearch } from "../sql/search";
import type { V1Search } from "../v1/search";
import type { WarehouseTab } from "../warehouses/search";
import { Shell } from "./shell";

/** A page whose code is loaded when it is opened. */
const page = <T extends Record<string, unknown>, Name extends keyof T & string>(load: () => Promise<T>, name: Name) =>
  lazyRouteComponent(styled(load), name);

/** An address that the page reads itself, with its own code. */
const readLater = <T,>(given: Record<string, unknown>) => given as T;

/** What Databricks' older addresses mean here, which Terraform's provider and clients of the Jobs API print: /#job/1/run/2. */
const linked = (hash: string) => {
  const [, kind, id, run] = /^(job|setting\/clusters)\/([\w-]+)(?:\/run\/(\d+))?/.exec(hash) ?? [];
  return run ? `/jobs/runs/${run}` : kind && `/${kind === "job" ? "jobs" : "compute/clusters"}/${id}`;
};

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: ({ location }) => {
    throw redirect({ href: linked(location.hash) ?? "/compute" });
  },
});

const compute = createRoute({
  getParentRoute: () => root,
  path: "/compute",
  validateSearch: readSearch,
  component: ComputePage,
});

const create = createRoute({
  getParentRoute: () => root,
  path: "/compute/create",
  validateSearch: (given: Record<string, unknown>): { clone?: string; pool?: string; policy?: string; like?: string } =>
    Object.fromEntries(
      (["clone", "pool", "policy", "like"] as const)
        .filter((name) => given[name])
        .map((name) => [name, String(given[name])]),
    ),
  component: page(() => import("../editor/create"), "CreatePage"),
});

const edit = createRoute({
  getParentRoute: () => root,
  path: "/compute/clusters/$id/edit",
  component: page(() => import("../editor/edit"), "EditPage"),
});

const cluster = createRoute({
  getParentRoute: () => root,
  path: "/compute/clusters/$id",
  validateSearch: readClusterSearch,
  component: page(() => import("../cluster/page"), "ClusterPage"),
});

const admin = createRoute({
  getParentRoute: () => root,
  path: "/admin",
  validateSearch: readAdminSearch,
  component: page(() => import("../admin/page"), "AdminPage"),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: page(() => import("../admin/settings"), "SettingsPage"),
});

const pool = createRoute({
  getParentRoute: () => root,
  path: "/compute/pools/$id",
  validateSearch: readPoolSearch,
  component: page(() => import("../pools/page"), "PoolPage"),
});

const createPool = createRoute({
  getParentRoute: () => root,
  path: "/compute/pools/create",
  component: page(() => import("../pools/form"), "CreatePoolPage"),
});

const editPool = createRoute({
  getParentRoute: () => root,
  path: "/compute/pools/$id/edit",
  component: page(() => import("../pools/form"), "EditPoolPage"),
});

const policy = createRoute({
  getParentRoute: () => root,
  path: "/compute/policies/$id",
  validateSearch: readPolicySearch,
  component: page(() => import("../policies/page"), "PolicyPage"),
});

const createPolicy = createRoute({
  getParentRoute: () => root,
  path: "/compute/policies/create",
  validateSearch: readCreateSearch,
  component: page(() => import("../policies/editor"), "CreatePolicyPage"),
});

const editPolicy = createRoute({
  getParentRoute: () => root,
  path: "/compute/policies/$id/edit",
  component: page(() => import("../policies/editor"), "EditPolicyPage"),
});

const spend = createRoute({
  getParentRoute: () => root,
  path: "/spend",
  validateSearch: readLater<SpendSearch>,
  component: page(() => import("../spend/page"), "SpendPage"),
});

const files = createRoute({
  getParentRoute: () => root,
  path: "/files",
  validateSearch: readLater<FilesSearch>,
  component: page(() => import("../files/page"), "FilesPage"),
});

const notebook = createRoute({
  getParentRoute: () => root,
  path: "/workspace/notebook",
  validateSearch: readLater<{ path?: string }>,
  component: page(() => import("../notebooks/page"), "NotebookPage"),
});

const catalog = createRoute({
  getParentRoute: () => root,
  path: "/catalog",
  validateSearch: readLater<CatalogSearch>,
  component: page(() => import("../sql/catalogpage"), "CatalogPage"),
});

const jobs = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: readLater<JobsSearch>,
  component: page(() => import("../jobs/list"), "JobsPage"),
});

const job = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$id",
  validateSearch: readLater<{ tab?: JobTab }>,
  component: page(() => import("../jobs/page"), "JobPage"),
});

const createJob = createRoute({
  getParentRoute: () => root,
  path: "/jobs/create",
  component: page(() => import("../jobs/form"), "CreateJobPage"),
});

const editJob = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$id/edit",
  component: page(() => import("../jobs/form"), "EditJobPage"),
});

const runs = createRoute({
  getParentRoute: () => root,
  path: "/jobs/runs",
  validateSearch: readLater<RunsSearch>,
  component: page(() => import("../runs/list"), "RunsPage"),
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/jobs/runs/$id",
  component: page(() => import("../runs/page"), "RunPage"),
});

const runOfJob = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$job/runs/$id", // as at Databricks, and what `run_page_url` is
  component: page(() => import("../runs/page"), "RunPage"),
});

const schedules = createRoute({
  getParentRoute: () => root,
  path: "/schedules",
  validateSearch: readLater<V1Search>,
  component: page(() => import("../v1/page"), "V1Page"),
});

const documentation = createRoute({
  getParentRoute: () => root,
  path: "/help/$topic",
  component: page(() => import("./helppage"), "HelpPage"),
});

const warehouse = createRoute({
  getParentRoute: () => root,
  path: "/compute/warehouses/$id",
  validateSearch: readLater<{ tab?: WarehouseTab }>,
  component: page(() => import("../warehouses/page"), "WarehousePage"),
});

const createWarehouse = createRoute({
  getParentRoute: () => root,
  path: "/compute/warehouses/create",
  component: page(() => import("../warehouses/form"), "CreateWarehousePage"),
});

const editWarehouse = createRoute({
  getParentRoute: () => root,
  path: "/compute/warehouses/$id/edit",
  component: page(() => import("../warehouses/form"), "EditWarehousePage"),
});

const history = createRoute({
  getParentRoute: () => root,
  path: "/sql/history",
  validateSearch: readLater<HistorySearch>,
  component: page(() => import("../sql/historypage"), "HistoryPage"),
});

const editor = createRoute({
  getParentRoute: () => root,
  path: "/sql/editor",
  validateSearch: readLater<EditorSearch>,
  component: page(() => import("../sql/editorpage"), "EditorPage"),
});

const pools = [pool, createPool, editPool] as const;
const others = [
  spend,
  files,
  notebook,
  catalog,
  jobs,
  job,
  createJob,
  editJob,
  runs,
  run,
  runOfJob,
  schedules,
  documentation,
] as const;
const sql = [warehouse, createWarehouse, editWarehouse, history, editor] as const;
const policies = [policy, createPolicy, editPolicy] as const;

export const router = createRouter({
  routeTree: root.addChildren([
    admin,
    settings,
    start,
    compute,
    create,
    cluster,
    edit,
    ...others,
    ...pools,
    ...sql,
    ...policies,
  ]),
  defaultErrorComponent: ({ error, reset }) => <Trouble error={error} retry={reset} />,
  defaultPreload: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

function NotFound() {
  return (
    <div className="trouble">
      <h1>Page not found</h1>
      <p>
        <Link to="/compute">Go to Compute</Link>
      </p>
    </div>
  );
}
