import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import {
  Background,
  Controls,
  Handle,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type Edge as FlowEdge,
  type Node as FlowNode,
  type NodeProps,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { GraphDrawer } from "../graph/drawer";
import { firstView } from "../graph/first_view";
import { around, closeGroups, dagOf, only, type Net, type Thing } from "../graph/model";
import { HEIGHT, WIDTH } from "../graph/size";
import { useLayout } from "../graph/use_layout";
import { Page } from "../shell/page";
import { Button, Card, Empty, NoMatch, Skeleton } from "../ui/basics";
import { count, short } from "../ui/format";
import { Loaded } from "../ui/problem";
import { Glyph, toneOf, type Tone } from "../ui/state";
import "./graph.css";

// Beyond so many things the groups are closed to begin with.
const OPEN_BELOW = 150;

export function GraphPage() {
  const graph = useQuery(ask.graph());
  return (
    <Page title="Graph" doc="dag" full>
      <Loaded query={graph} lines={10}>
        {(data) =>
          data.nodes.length === 0 ? (
            <Card>
              <Empty
                title="No DAG is deployed"
                command="trace deploy src/trace_platform/examples/chain.yaml"
              >
                Its jobs and datasets appear here, with what flows from which to which.
              </Empty>
            </Card>
          ) : (
            <ReactFlowProvider>
              <Explorer nodes={data.nodes} edges={data.edges} />
            </ReactFlowProvider>
          )
        }
      </Loaded>
    </Page>
  );
}

function Explorer({ nodes, edges }: { nodes: S<"LineageNode">[]; edges: S<"LineageEdge">[] }) {
  const search = useSearch({ from: "/graph" });
  const navigate = useNavigate({ from: "/graph" });
  const all = useNet(nodes, edges);
  const dags = useMemo(() => [...new Set(all.things.map((thing) => thing.dag))].sort(), [all]);
  const [closed, setClosed] = useState<Set<string>>(
    () => new Set(all.things.length > OPEN_BELOW && !search.dag ? dags : []),
  );
  const [tone, setTone] = useState("");
  const [typed, setTyped] = useState("");
  const [near, setNear] = useState(false);
  const selected = search.at ?? null;
  const select = (id: string | null) =>
    void navigate({ to: "/graph/", search: { ...search, at: id ?? undefined }, replace: true });

  const dagOfSelected = all.things.find((thing) => thing.id === selected)?.dag;
  const net = useMemo(() => {
    const open = new Set([...closed].filter((dag) => dag !== dagOfSelected));
    let shown = all;
    if (search.dag) {
      const mine = new Set(all.things.filter((thing) => thing.dag === search.dag).map((t) => t.id));
      const touches = new Set(
        all.edges.flatMap((e) =>
          mine.has(e.source) || mine.has(e.target) ? [e.source, e.target] : [],
        ),
      );
      shown = only(all, (thing) => mine.has(thing.id) || touches.has(thing.id));
    }
    shown = closeGroups(shown, open);
    if (tone) shown = only(shown, (thing) => thing.tone === tone || thing.id === selected);
    if (near && selected && shown.things.some((thing) => thing.id === selected))
      shown = around(shown, selected);
    return shown;
  }, [all, closed, dagOfSelected, search.dag, tone, near, selected]);

  const found = useMemo(() => {
    const wanted = typed.trim().toLowerCase();
    return wanted ? net.things.filter((thing) => thing.label.toLowerCase().includes(wanted)) : [];
  }, [net, typed]);
  const thing = net.things.find((each) => each.id === selected) ?? null;
  return (
    <>
      <div className="filters">
        <input
          type="search"
          aria-label="Find in the graph"
          placeholder="Find in the graph"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && found[0]) select(found[0].id);
          }}
        />
        <select
          aria-label="DAG"
          value={search.dag ?? ""}
          onChange={(event) =>
            void navigate({
              to: "/graph/",
              search: { dag: event.target.value || undefined, at: undefined },
              replace: true,
            })
          }
        >
          <option value="">Everything</option>
          {dags.map((dag) => (
            <option key={dag}>{dag}</option>
          ))}
        </select>
        <select aria-label="State" value={tone} onChange={(event) => setTone(event.target.value)}>
          <option value="">Any state</option>
          <option value="bad">Blocked or failing</option>
          <option value="warn">Stale or held</option>
          <option value="busy">Running</option>
          <option value="good">Fresh</option>
        </select>
        <label className="row">
          <input
            type="checkbox"
            checked={near}
            disabled={!selected}
            onChange={(event) => setNear(event.target.checked)}
          />
          Only neighbours
        </label>
        <Button look="quiet" onClick={() => setClosed(closed.size > 0 ? new Set() : new Set(dags))}>
          {closed.size > 0 ? "Open all groups" : "Close all groups"}
        </Button>
        <span className="faint">
          {count(net.things.length)} shown of {count(all.things.length)}
        </span>
      </div>
      {net.things.length === 0 ? (
        <Card>
          <NoMatch
            onClear={() => {
              setTone("");
              void navigate({ to: "/graph/", search: {}, replace: true });
            }}
          />
        </Card>
      ) : (
        <div className={thing ? "graph with-drawer" : "graph"}>
          <Canvas
            net={net}
            selected={selected}
            found={new Set(found.map((each) => each.id))}
            onSelect={(id) => {
              if (!id?.startsWith("group:")) return select(id);
              const next = new Set(closed);
              next.delete(id.slice("group:".length));
              setClosed(next);
            }}
          />
          {thing && thing.kind !== "group" && (
            <GraphDrawer
              thing={thing}
              onClose={() => select(null)}
              onCloseGroup={() => {
                setClosed(new Set([...closed, thing.dag]));
                select(null);
              }}
            />
          )}
        </div>
      )}
    </>
  );
}

/** Nodes with the states that datasets, queues and failed tasks tell. */
function useNet(nodes: S<"LineageNode">[], edges: S<"LineageEdge">[]): Net {
  const datasets = useQuery(ask.datasets(true)).data;
  const queues = useQuery(ask.queues()).data;
  const failed = useQuery(ask.tasks({ status: "Failed" }, 200)).data;
  return useMemo(() => {
    const entries = new Map(datasets?.datasets.map((each) => [each.dataset, each]));
    const jobs = new Map<string, [Tone, string]>();
    for (const task of failed?.tasks ?? []) {
      jobs.set(`${task.dag_name}.${task.job_name}`, ["bad", "a task failed"]);
    }
    for (const queue of queues?.queues ?? []) {
      const name = `${queue.dag_name}.${queue.job_name}`;
      if (queue.holds.length > 0) jobs.set(name, ["warn", "on hold"]);
      else if (queue.running > 0) jobs.set(name, ["busy", `${queue.running} running`]);
      else if (queue.retrying > 0) jobs.set(name, ["warn", `${queue.retrying} will run again`]);
      else if (queue.ready > 0 && !jobs.has(name))
        jobs.set(name, ["wait", `${queue.ready} waiting`]);
    }
    const things = nodes.map((node): Thing => {
      const dag = dagOf(node);
      if (node.kind === "job") {
        const [tone, said] = jobs.get(node.id) ?? ["good", "job"];
        return { id: node.id, kind: "job", label: node.id, dag, tone, said };
      }
      const entry = entries.get(node.id);
      return {
        id: node.id,
        kind: "dataset",
        label: node.id,
        dag,
        tone: entry ? toneOf(entry.state) : "off",
        said: entry ? `${entry.state}, ${short(entry.rows)} rows` : "dataset",
      };
    });
    return { things, edges };
  }, [nodes, edges, datasets, queues, failed]);
}

type ThingNode = FlowNode<{ thing: Thing; found: boolean }, "thing">;

const ThingBox = memo(function ThingBox({
  data: { thing, found },
  selected,
}: NodeProps<ThingNode>) {
  return (
    <div
      className={`thing ${thing.kind} t-${thing.tone} ${selected ? "selected" : ""} ${found ? "found" : ""}`}
      title={thing.label}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Glyph tone={thing.tone} size={11} />
      <span className="thing-text">
        <span className="clip">{thing.label}</span>
        <span className="thing-said clip">{thing.said}</span>
      </span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

const TYPES = { thing: ThingBox };
// Said and not measured: what has to be measured is drawn once, and of 2,000 that takes seconds.
const HANDLE = { y: HEIGHT / 2, width: 1, height: 1 };
const SIZE = {
  width: WIDTH,
  height: HEIGHT,
  measured: { width: WIDTH, height: HEIGHT },
  handles: [
    { type: "target" as const, position: Position.Left, x: 0, ...HANDLE },
    { type: "source" as const, position: Position.Right, x: WIDTH, ...HANDLE },
  ],
};

function Canvas({
  net,
  selected,
  found,
  onSelect,
}: {
  net: Net;
  selected: string | null;
  found: Set<string>;
  onSelect: (id: string | null) => void;
}) {
  const places = useLayout(net);
  const flow = useReactFlow();
  const fitted = useRef<unknown>(null);
  const box = useRef<HTMLDivElement>(null);
  const nodes = useMemo<ThingNode[]>(
    () =>
      places === null
        ? []
        : net.things.map((thing) => {
            const [x, y] = places[thing.id] ?? [0, 0];
            return {
              id: thing.id,
              type: "thing",
              position: { x, y },
              ...SIZE,
              selected: thing.id === selected,
              ariaLabel: `${thing.kind} ${thing.label}: ${thing.said}`,
              data: { thing, found: found.has(thing.id) },
            };
          }),
    [net, places, selected, found],
  );
  const edges = useMemo<FlowEdge[]>(
    () =>
      net.edges.map((edge) => ({
        id: `${edge.source} ${edge.target}`,
        source: edge.source,
        target: edge.target,
        focusable: false,
        className: edge.source === selected || edge.target === selected ? "near" : "",
      })),
    [net, selected],
  );
  useEffect(() => {
    if (places === null || fitted.current === places || !box.current) return;
    fitted.current = places;
    const { clientWidth: width, clientHeight: height } = box.current;
    void flow.setViewport(firstView(places, selected, width, height));
  }, [places, selected, flow]);
  useEffect(() => {
    const [first] = found;
    if (first) void flow.fitView({ nodes: [{ id: first }], maxZoom: 1, duration: 200 });
  }, [found.size, [...found][0], flow]);

  const move = (key: string): boolean => {
    const next = neighbour(net, places, selected, key);
    if (next === null) return false;
    onSelect(next);
    void flow.fitView({
      nodes: [{ id: next }],
      maxZoom: Math.min(1, flow.getZoom()),
      duration: 150,
    });
    return true;
  };
  if (places === null) {
    return (
      <div className="graph-wait">
        <Skeleton lines={8} />
      </div>
    );
  }
  return (
    <div
      ref={box}
      style={{ minHeight: 0, minWidth: 0 }}
      onKeyDownCapture={(event) => {
        const focused = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node");
        if (event.key === "Escape") onSelect(null);
        else if (event.key === "Enter" && focused) onSelect(focused.dataset.id ?? null);
        else if (!event.key.startsWith("Arrow") || !move(event.key)) return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        onlyRenderVisibleElements
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        panOnScroll
        minZoom={0.05}
        maxZoom={1.5}
        onNodeClick={(_, node) => onSelect(node.id)}
        onPaneClick={() => onSelect(null)}
      >
        <Background gap={22} size={1} color="var(--line)" />
        <Controls showInteractive={false} position="bottom-left" />
      </ReactFlow>
    </div>
  );
}

/** Left and right follow edges, up and down the layer. */
function neighbour(
  net: Net,
  places: Record<string, [number, number]> | null,
  from: string | null,
  key: string,
): string | null {
  if (places === null) return null;
  if (from === null || !places[from]) return net.things[0]?.id ?? null;
  const [x, y] = places[from];
  const nearest = (ids: string[]) =>
    ids.sort(
      (a, b) => Math.abs((places[a]?.[1] ?? 0) - y) - Math.abs((places[b]?.[1] ?? 0) - y),
    )[0] ?? null;
  if (key === "ArrowRight")
    return nearest(net.edges.filter((e) => e.source === from).map((e) => e.target));
  if (key === "ArrowLeft")
    return nearest(net.edges.filter((e) => e.target === from).map((e) => e.source));
  const layer = net.things
    .map((thing) => thing.id)
    .filter((id) => Math.abs((places[id]?.[0] ?? 0) - x) < WIDTH / 2)
    .filter((id) =>
      key === "ArrowDown" ? (places[id]?.[1] ?? 0) > y : (places[id]?.[1] ?? 0) < y,
    );
  return nearest(layer);
}
