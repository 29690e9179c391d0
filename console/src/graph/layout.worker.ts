// Where things stand: layers from left to right. In a worker, so that the page stays usable.

import dagre from "@dagrejs/dagre";
import type { Edge } from "./model";

export interface Wanted {
  key: string;
  ids: string[];
  edges: Edge[];
  width: number;
  height: number;
}

export interface Placed {
  key: string;
  places: Record<string, [number, number]>;
}

// Beyond this the exact ranking takes seconds, and the longest path looks much the same.
const EXACT = 300;

self.onmessage = ({ data }: MessageEvent<Wanted>) => {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 14,
    ranksep: 44,
    ranker: data.ids.length > EXACT ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of data.ids) graph.setNode(id, { width: data.width, height: data.height });
  for (const edge of data.edges) graph.setEdge(edge.source, edge.target);
  dagre.layout(graph);
  const places: Placed["places"] = {};
  for (const id of data.ids) {
    const node = graph.node(id);
    places[id] = [node.x - data.width / 2, node.y - data.height / 2];
  }
  self.postMessage({ key: data.key, places } satisfies Placed);
};
