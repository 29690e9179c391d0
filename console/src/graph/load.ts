// The whole graph, from as few questions as there are sources: whatever flows begins at one.

import { queryOptions } from "@tanstack/react-query";
import { get } from "../api/client";
import type { S } from "../api/types";

const MOST_QUESTIONS = 300;

export const wholeGraph = () =>
  queryOptions({
    queryKey: ["graph"],
    queryFn: async ({ signal }) => {
      const [sources, dags] = await Promise.all([
        get("/v1/sources", { signal }),
        get("/v1/dags", { signal }),
      ]);
      const nodes = new Map<string, S<"LineageNode">>();
      const edges = new Map<string, S<"LineageEdge">>();
      const ask = async (subject: string, direction: "down" | "both") => {
        const found = await get("/v1/lineage/{subject}", {
          path: { subject },
          query: { direction, depth: 1000 },
          signal,
        });
        for (const node of found.nodes) nodes.set(node.id, node);
        for (const edge of found.edges) edges.set(`${edge.source} ${edge.target}`, edge);
      };
      for (const source of sources.sources) {
        await ask(`${source.dag_name}.${source.job_name}`, "down");
      }
      let questions = 0;
      for (const dag of dags.dags) {
        if (dag.state !== "Active") continue;
        for (const job of dag.job_names) {
          const name = `${dag.dag_name}.${job}`;
          if (nodes.has(name) || questions >= MOST_QUESTIONS) continue;
          questions += 1;
          await ask(name, "both");
        }
      }
      return { nodes: [...nodes.values()], edges: [...edges.values()] };
    },
    meta: { on: ["dag"] },
    staleTime: 30_000,
  });
