// What pages ask for, and which live changes make it old.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { call, get, url } from "./client";
import type { S } from "./types";

const EVERY = { keep: { placeholderData: keepPreviousData } } as const;

export const session = () =>
  queryOptions({
    queryKey: ["session"],
    queryFn: ({ signal }) => get("/v1/session", { signal }),
    staleTime: Infinity,
  });

export const health = () =>
  queryOptions({
    queryKey: ["health"],
    queryFn: ({ signal }) => get("/v1/health", { signal }),
    meta: { on: ["alert", "job"] },
    refetchInterval: 15_000,
  });

export const alerts = (standing: boolean) =>
  queryOptions({
    queryKey: ["alerts", standing],
    queryFn: ({ signal }) => get("/v1/alerts", { query: { standing, limit: 200 }, signal }),
    meta: { on: ["alert"] },
  });

export const sources = () =>
  queryOptions({
    queryKey: ["sources"],
    queryFn: ({ signal }) => get("/v1/sources", { signal }),
    meta: { on: ["head", "job"] },
    refetchInterval: 10_000,
  });

export const pools = () =>
  queryOptions({
    queryKey: ["pools"],
    queryFn: ({ signal }) => get("/v1/pools", { signal }),
    meta: { on: ["head"] },
    refetchInterval: 10_000,
  });

export const queues = () =>
  queryOptions({
    queryKey: ["queues"],
    queryFn: ({ signal }) => get("/v1/queues", { signal }),
    meta: { on: ["job", "task"] },
    refetchInterval: 10_000,
  });

export const datasets = (all = false) =>
  queryOptions({
    queryKey: ["datasets", all],
    queryFn: ({ signal }) => get("/v1/datasets", { query: { all }, signal }),
    meta: { on: ["dataset", "dag"] },
  });

export const dataset = (name: string) =>
  queryOptions({
    queryKey: ["dataset", name],
    queryFn: ({ signal }) => get("/v1/datasets/{dataset}", { path: { dataset: name }, signal }),
    meta: { on: ["dataset", "dag", "invalidation"] },
    ...EVERY.keep,
  });

export const published = () =>
  queryOptions({
    queryKey: ["published"],
    queryFn: ({ signal }) => get("/v1/published", { signal }),
    meta: { on: ["dag"] },
    staleTime: 30_000,
  });

export const publishedOne = (name: string) =>
  queryOptions({
    queryKey: ["published", name],
    queryFn: ({ signal }) => get("/v1/published/{name}", { path: { name }, signal }),
    meta: { on: ["dag"] },
    staleTime: 30_000,
  });

export const datasetVersions = (name: string) =>
  queryOptions({
    queryKey: ["dataset-versions", name],
    queryFn: ({ signal }) =>
      get("/v1/datasets/{dataset}/versions", { path: { dataset: name }, signal }),
    meta: { on: ["dataset", "dag"] },
  });

/** All partitions of a dataset, page after page: the band shows them together. */
export const partitionColumns = (name: string, at: string | null) =>
  queryOptions({
    queryKey: ["partitions", name, at],
    queryFn: async ({ signal }) => {
      const found: S<"PartitionColumns">[] = [];
      let after: string | null = null;
      do {
        const page: S<"PartitionColumns"> = await get("/v1/datasets/{dataset}/partition-columns", {
          path: { dataset: name },
          query: { at, after },
          signal,
        });
        found.push(page);
        after = page.next;
      } while (after !== null);
      return found;
    },
    // As many columns as there are partitions: nothing is gained by comparing old with new.
    structuralSharing: false,
    meta: { on: ["dataset"] },
    ...EVERY.keep,
  });

export const invalidations = (dataset: string | null, open: boolean) =>
  queryOptions({
    queryKey: ["invalidations", dataset, open],
    queryFn: ({ signal }) =>
      get("/v1/invalidations", { query: { dataset, open, limit: 200 }, signal }),
    meta: { on: ["invalidation"] },
    ...EVERY.keep,
  });

export const checks = (dataset: string | null) =>
  queryOptions({
    queryKey: ["checks", dataset],
    queryFn: ({ signal }) => get("/v1/checks", { query: { dataset }, signal }),
    meta: { on: ["dataset", "task"] },
  });

export const checkResults = (dataset: string, failed: boolean) =>
  queryOptions({
    queryKey: ["check-results", dataset, failed],
    queryFn: ({ signal }) =>
      get("/v1/checks/{dataset}", { path: { dataset }, query: { failed, limit: 100 }, signal }),
    meta: { on: ["dataset", "task"] },
  });

export const graph = () =>
  queryOptions({
    queryKey: ["graph"],
    queryFn: ({ signal }) => get("/v1/lineage", { signal }),
    meta: { on: ["dag"] },
  });

export const lineage = (subject: string, direction: "up" | "down" | "both", depth: number) =>
  queryOptions({
    queryKey: ["lineage", subject, direction, depth],
    queryFn: ({ signal }) =>
      get("/v1/lineage/{subject}", { path: { subject }, query: { direction, depth }, signal }),
    meta: { on: ["dag"] },
    ...EVERY.keep,
  });

export const columnLineage = (subject: string, column: string) =>
  queryOptions({
    queryKey: ["column-lineage", subject, column],
    queryFn: ({ signal }) =>
      get("/v1/lineage/{subject}", {
        path: { subject },
        query: { column, direction: "both" },
        signal,
      }),
    meta: { on: ["dag"] },
  });

export const why = (subject: string) =>
  queryOptions({
    queryKey: ["why", subject],
    queryFn: ({ signal }) => get("/v1/why/{subject}", { path: { subject }, signal }),
    meta: { on: ["task", "job", "dataset"] },
    ...EVERY.keep,
  });

export interface TaskFilter {
  dag?: string | undefined;
  job?: string | undefined;
  status?: S<"TaskStatus">["status"] | undefined;
  prefix?: string | undefined;
}

export const tasks = (filter: TaskFilter, limit: number) =>
  queryOptions({
    queryKey: ["tasks", filter, limit],
    queryFn: ({ signal }) =>
      get("/v1/tasks", {
        query: {
          dag_name: filter.dag,
          job_name: filter.job,
          status: filter.status,
          id_prefix: filter.prefix,
          limit,
        },
        signal,
      }),
    meta: { on: ["task"] },
    ...EVERY.keep,
  });

export const task = (id: string) =>
  queryOptions({
    queryKey: ["task", id],
    queryFn: ({ signal }) => get("/v1/tasks/{task_id}", { path: { task_id: id }, signal }),
    meta: { on: ["task"], id },
    refetchInterval: (query) => (query.state.data?.status === "Running" ? 2_000 : false),
  });

export const taskLog = (id: string, attempt: number) =>
  queryOptions({
    queryKey: ["task-log", id, attempt],
    queryFn: async ({ signal }) => {
      const asked = { path: { task_id: id }, query: { attempt }, signal };
      const answer = await call(url("/v1/tasks/{task_id}/log-file", asked), {
        method: "GET",
        signal,
      });
      return answer.blob();
    },
    structuralSharing: false,
    meta: { on: ["task"], id },
  });

export const events = (dataset: string | null) =>
  queryOptions({
    queryKey: ["events", dataset],
    queryFn: ({ signal }) => get("/v1/events", { query: { dataset, limit: 100 }, signal }),
    meta: { on: ["dataset"] },
  });

export const dags = () =>
  queryOptions({
    queryKey: ["dags"],
    queryFn: ({ signal }) => get("/v1/dags", { signal }),
    meta: { on: ["dag"] },
  });

export const dag = (name: string) =>
  queryOptions({
    queryKey: ["dag", name],
    queryFn: ({ signal }) => get("/v1/dags/{dag_name}", { path: { dag_name: name }, signal }),
    meta: { on: ["dag", "task", "dataset"] },
    ...EVERY.keep,
  });

export const dagVersions = (name: string) =>
  queryOptions({
    queryKey: ["dag-versions", name],
    queryFn: ({ signal }) =>
      get("/v1/dags/{dag_name}/versions", { path: { dag_name: name }, signal }),
    meta: { on: ["dag"] },
  });

export const dagVersion = (name: string, version: string) =>
  queryOptions({
    queryKey: ["dag-version", name, version],
    queryFn: ({ signal }) =>
      get("/v1/dags/{dag_name}/versions/{version}", {
        path: { dag_name: name, version },
        signal,
      }),
    staleTime: Infinity,
  });

export const deploys = (name: string | null) =>
  queryOptions({
    queryKey: ["deploys", name],
    queryFn: ({ signal }) => get("/v1/deploys", { query: { dag_name: name, limit: 100 }, signal }),
    meta: { on: ["dag", "task"] },
  });

export const backfills = () =>
  queryOptions({
    queryKey: ["backfills"],
    queryFn: ({ signal }) => get("/v1/backfills", { query: { limit: 100 }, signal }),
    meta: { on: ["backfill"] },
  });

export const backfill = (id: string) =>
  queryOptions({
    queryKey: ["backfill", id],
    queryFn: ({ signal }) =>
      get("/v1/backfills/{backfill_id}", { path: { backfill_id: id }, signal }),
    meta: { on: ["backfill", "task"] },
  });

export const ownQueries = () =>
  queryOptions({
    queryKey: ["own-queries"],
    queryFn: ({ signal }) => get("/v1/own-queries", { query: { limit: 50 }, signal }),
  });

export const deadLetters = () =>
  queryOptions({
    queryKey: ["dead-letters"],
    queryFn: ({ signal }) => get("/v1/dead-letters", { query: { limit: 50 }, signal }),
    meta: { on: ["alert"] },
  });
