// Datasets and jobs as a graph: what is shown of it, and what stands for a group that is closed.

import type { S } from "../api/types";
import type { Tone } from "../ui/state";

export interface Thing {
  id: string;
  kind: "dataset" | "job" | "group";
  label: string;
  dag: string;
  tone: Tone;
  said: string;
}

export interface Edge {
  source: string;
  target: string;
}

export interface Net {
  things: Thing[];
  edges: Edge[];
}

export function dagOf(node: S<"LineageNode">): string {
  return (node.producer ?? node.id).split(".")[0] ?? "";
}

/** Closed DAGs become one thing each; edges between the same two things become one. */
export function closeGroups(net: Net, closed: Set<string>): Net {
  const groups = new Map<string, Thing[]>();
  const kept: Thing[] = [];
  for (const thing of net.things) {
    if (!closed.has(thing.dag)) kept.push(thing);
    else if (groups.get(thing.dag)?.push(thing) === undefined) groups.set(thing.dag, [thing]);
  }
  for (const [dag, inside] of groups) {
    kept.push({
      id: groupId(dag),
      kind: "group",
      label: dag,
      dag,
      tone: worst(inside.map((thing) => thing.tone)),
      said: `${inside.filter((thing) => thing.kind === "job").length} jobs, ${inside.filter((thing) => thing.kind === "dataset").length} datasets`,
    });
  }
  const dagOfThing = new Map(net.things.map((thing) => [thing.id, thing.dag]));
  const stand = (id: string) => {
    const dag = dagOfThing.get(id) ?? "";
    return closed.has(dag) ? groupId(dag) : id;
  };
  const seen = new Set<string>();
  const edges: Edge[] = [];
  for (const edge of net.edges) {
    const source = stand(edge.source);
    const target = stand(edge.target);
    const key = `${source} ${target}`;
    if (source === target || seen.has(key)) continue;
    seen.add(key);
    edges.push({ source, target });
  }
  return { things: kept, edges };
}

export function groupId(dag: string): string {
  return `group:${dag}`;
}

/** Only one thing and what is one step from it. */
export function around(net: Net, id: string): Net {
  const near = new Set([id]);
  for (const edge of net.edges) {
    if (edge.source === id) near.add(edge.target);
    if (edge.target === id) near.add(edge.source);
  }
  return only(net, (thing) => near.has(thing.id));
}

export function only(net: Net, keep: (thing: Thing) => boolean): Net {
  const things = net.things.filter(keep);
  const kept = new Set(things.map((thing) => thing.id));
  return {
    things,
    edges: net.edges.filter((edge) => kept.has(edge.source) && kept.has(edge.target)),
  };
}

const ORDER: Tone[] = ["bad", "warn", "busy", "wait", "good", "off"];

export function worst(tones: Tone[]): Tone {
  return ORDER.find((tone) => tones.includes(tone)) ?? "off";
}
