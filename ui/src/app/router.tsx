import { Text, Title } from "@mantine/core";
import { createRootRoute, createRoute, createRouter, Link, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { readAdminSearch } from "../admin/search";
import { readClusterSearch } from "../cluster/search";
import { readSearch } from "../compute/search";
import { Shell } from "./shell";
import { Trouble } from "./trouble";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/compute", search: {} });
  },
});

const compute = createRoute({
  getParentRoute: () => root,
  path: "/compute",
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("../compute/page"), "ComputePage"),
});

const create = createRoute({
  getParentRoute: () => root,
  path: "/compute/create",
  validateSearch: (given: Record<string, unknown>): { clone?: string } =>
    given.clone === undefined ? {} : { clone: String(given.clone) },
  component: lazyRouteComponent(() => import("../editor/create"), "CreatePage"),
});

const edit = createRoute({
  getParentRoute: () => root,
  path: "/compute/clusters/$id/edit",
  component: lazyRouteComponent(() => import("../editor/edit"), "EditPage"),
});

const cluster = createRoute({
  getParentRoute: () => root,
  path: "/compute/clusters/$id",
  validateSearch: readClusterSearch,
  component: lazyRouteComponent(() => import("../cluster/page"), "ClusterPage"),
});

const admin = createRoute({
  getParentRoute: () => root,
  path: "/admin",
  validateSearch: readAdminSearch,
  component: lazyRouteComponent(() => import("../admin/page"), "AdminPage"),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: lazyRouteComponent(() => import("../admin/settings"), "SettingsPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([admin, settings, start, compute, create, cluster, edit]),
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
      <Title order={1} size="h4">
        There is no such page
      </Title>
      <Text>
        <Link to="/compute">Go to the clusters</Link>
      </Text>
    </div>
  );
}
