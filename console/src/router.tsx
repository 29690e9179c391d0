import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Link,
} from "@tanstack/react-router";
import { Home } from "./pages/home";
import { Shell } from "./shell/shell";
import { Page } from "./shell/page";
import { ProblemBox } from "./ui/problem";
import { Skeleton } from "./ui/basics";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
const docs = createRoute({
  getParentRoute: () => root,
  path: "/docs/$page",
  component: lazyRouteComponent(() => import("./pages/docs"), "Docs"),
});
const query = createRoute({
  getParentRoute: () => root,
  path: "/query",
  component: lazyRouteComponent(() => import("./pages/query"), "QueryPage"),
  validateSearch: (said: Record<string, unknown>): { sql?: string | undefined } => ({
    sql: text(said.sql),
  }),
});
const catalogue = createRoute({
  getParentRoute: () => root,
  path: "/catalogue",
  component: lazyRouteComponent(() => import("./pages/catalogue"), "Catalogue"),
  validateSearch: (
    said: Record<string, unknown>,
  ): {
    q?: string | undefined;
    state?: string | undefined;
    owner?: string | undefined;
    tag?: string | undefined;
    all?: boolean | undefined;
  } => ({
    q: text(said.q),
    state: text(said.state),
    owner: text(said.owner),
    tag: text(said.tag),
    all: said.all === true ? true : undefined,
  }),
});
const dataset = createRoute({
  getParentRoute: () => root,
  path: "/datasets/$dataset",
  component: lazyRouteComponent(() => import("./pages/dataset"), "DatasetPage"),
  validateSearch: (
    said: Record<string, unknown>,
  ): { tab?: string | undefined; at?: string | undefined } => ({
    tab: text(said.tab),
    at: text(said.at),
  }),
});
const graph = createRoute({
  getParentRoute: () => root,
  path: "/graph",
  component: lazyRouteComponent(() => import("./pages/graph"), "GraphPage"),
  validateSearch: (
    said: Record<string, unknown>,
  ): { dag?: string | undefined; at?: string | undefined } => ({
    dag: text(said.dag),
    at: text(said.at),
  }),
});
const chains = createRoute({
  getParentRoute: () => root,
  path: "/chains",
  component: lazyRouteComponent(() => import("./pages/chains"), "Chains"),
});
const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  component: lazyRouteComponent(() => import("./pages/runs"), "Runs"),
  validateSearch: (
    said: Record<string, unknown>,
  ): { dag?: string | undefined; job?: string | undefined; status?: string | undefined } => ({
    dag: text(said.dag),
    job: text(said.job),
    status: text(said.status),
  }),
});
const task = createRoute({
  getParentRoute: () => root,
  path: "/tasks/$task",
  component: lazyRouteComponent(() => import("./pages/task"), "TaskPage"),
  validateSearch: (said: Record<string, unknown>): { attempt?: number | undefined } => ({
    attempt: typeof said.attempt === "number" ? said.attempt : undefined,
  }),
});
const why = createRoute({
  getParentRoute: () => root,
  path: "/why/$subject",
  component: lazyRouteComponent(() => import("./pages/why"), "WhyPage"),
});
const backfills = createRoute({
  getParentRoute: () => root,
  path: "/backfills",
  component: lazyRouteComponent(() => import("./pages/backfills"), "Backfills"),
});
const deploy = createRoute({
  getParentRoute: () => root,
  path: "/deploy",
  component: lazyRouteComponent(() => import("./pages/deploy"), "DeployPage"),
  validateSearch: (said: Record<string, unknown>): { dag?: string | undefined } => ({
    dag: text(said.dag),
  }),
});
const operators = createRoute({
  getParentRoute: () => root,
  path: "/operators",
  component: lazyRouteComponent(() => import("./pages/operators"), "Operators"),
});
const health = createRoute({
  getParentRoute: () => root,
  path: "/health",
  component: lazyRouteComponent(() => import("./pages/health"), "HealthPage"),
});

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    query,
    catalogue,
    dataset,
    graph,
    chains,
    runs,
    task,
    why,
    backfills,
    deploy,
    operators,
    health,
    docs,
  ]),
  defaultPreload: "intent",
  // One form of each address: with or without the slash a link is the same page.
  trailingSlash: "always",
  defaultPendingComponent: () => (
    <div className="page-inside">
      <Skeleton lines={8} />
    </div>
  ),
  defaultErrorComponent: ({ error, reset }) => (
    <div className="page-inside">
      <ProblemBox error={error} onRetry={reset} />
    </div>
  ),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

function NotFound() {
  return (
    <Page title="There is no such page" doc="console">
      <p>
        <Link to="/">Home</Link> has links to all that there are; the key <kbd>/</kbd> finds them by
        name.
      </p>
    </Page>
  );
}
