// Where things stand: layers from left to right, each thing right of all that it comes from. Within a
// layer things are in the order of what they are connected with, and as near to it as there is room.
// An edge over several layers keeps a lane of its own there.

import type { Edge } from "./model";
import { HEIGHT, WIDTH } from "./size";

export type Places = Record<string, [number, number]>;

interface Spot {
  /** Null for a lane. */
  id: string | null;
  layer: number;
  before: Spot[];
  after: Spot[];
  order: number;
  y: number;
}

const BETWEEN_LAYERS = 44;
const BETWEEN = 14;
// Wide enough for an edge that ends between it and its neighbour.
const LANE = 32;
const SWEEPS = 8;

export function layers(ids: string[], edges: Edge[]): Places {
  const spots = spotsOf(ids, edges);
  const rows = rowsOf([...spots.values()]);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) sortRows(rows, sweep % 2 === 0);
  for (const row of rows) stack(row);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) moveRows(rows, sweep % 2 === 0);
  const places: Places = {};
  for (const [id, { layer, y }] of spots) {
    places[id] = [layer * (WIDTH + BETWEEN_LAYERS), Math.round(y - HEIGHT / 2)];
  }
  return places;
}

function spotsOf(ids: string[], edges: Edge[]): Map<string, Spot> {
  const spots = new Map(ids.map((id) => [id, spot(id)]));
  const known = edges.flatMap(({ source, target }): [Spot, Spot][] => {
    const [from, to] = [spots.get(source), spots.get(target)];
    return from && to && from !== to ? [[from, to]] : [];
  });
  for (const [from, to] of known) {
    from.after.push(to);
    to.before.push(from);
  }
  rank([...spots.values()]);
  for (const each of spots.values()) each.before = [];
  const lanes = new Map<Spot, Spot[]>();
  for (const each of spots.values()) {
    const after = each.after;
    each.after = [];
    for (const to of after) join(each, to, lanes);
  }
  return spots;
}

function spot(id: string | null, layer = 0): Spot {
  return { id, layer, before: [], after: [], order: 0, y: 0 };
}

/** One layer right of the furthest that it comes from. What is in a circle stays where it is met. */
function rank(spots: Spot[]): void {
  const waits = new Map(spots.map((each) => [each, each.before.length]));
  const ready = spots.filter((each) => each.before.length === 0);
  for (const each of ready) {
    for (const to of each.after) {
      to.layer = Math.max(to.layer, each.layer + 1);
      const left = waits.get(to)! - 1;
      waits.set(to, left);
      if (left === 0) ready.push(to);
    }
  }
}

/** Over each layer between by a lane, which all edges of the thing share. */
function join(from: Spot, to: Spot, lanes: Map<Spot, Spot[]>): void {
  const mine = lanes.get(from) ?? [];
  lanes.set(from, mine);
  let last = from;
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    const index = layer - from.layer - 1;
    let lane = mine[index];
    if (!lane) {
      lane = spot(null, layer);
      mine[index] = lane;
      link(last, lane);
    }
    last = lane;
  }
  link(last, to);
}

function link(from: Spot, to: Spot): void {
  from.after.push(to);
  to.before.push(from);
}

function rowsOf(spots: Spot[]): Spot[][] {
  const rows: Spot[][] = [];
  const seen = new Set<Spot>();
  const visit = (first: Spot) => {
    const ahead = [first];
    while (ahead.length > 0) {
      const each = ahead.pop()!;
      if (seen.has(each)) continue;
      seen.add(each);
      (rows[each.layer] ??= []).push(each);
      // The first of them is met first.
      for (let at = each.after.length - 1; at >= 0; at -= 1) ahead.push(each.after[at]!);
    }
  };
  for (const each of spots) if (each.before.length === 0) visit(each);
  for (const each of spots) visit(each);
  for (const row of rows) number(row);
  return rows;
}

function number(row: Spot[]): void {
  row.forEach((each, index) => {
    each.order = index / row.length;
  });
}

function sortRows(rows: Spot[][], right: boolean): void {
  for (const row of right ? rows : [...rows].reverse()) {
    const wanted = new Map(
      row.map((each) => [each, mean(right ? each.before : each.after, (one) => one.order)]),
    );
    row.sort((a, b) => (wanted.get(a) ?? a.order) - (wanted.get(b) ?? b.order));
    number(row);
  }
}

function stack(row: Spot[]): void {
  let y = 0;
  row.forEach((each, index) => {
    if (index > 0) y += apart(row[index - 1]!, each);
    each.y = y;
  });
  for (const each of row) each.y -= y / 2;
}

/** Between the middles of two that follow each other. */
function apart(a: Spot, b: Spot): number {
  const size = (each: Spot) => (each.id === null ? LANE : HEIGHT);
  return (size(a) + size(b)) / 2 + BETWEEN;
}

function moveRows(rows: Spot[][], right: boolean): void {
  for (const row of right ? rows : [...rows].reverse()) {
    settle(
      row,
      row.map((each) => mean(right ? each.before : each.after, (one) => one.y) ?? each.y),
    );
  }
}

/** As near to what is wanted as the order allows: those that would overlap move as one block. */
function settle(row: Spot[], wanted: number[]): void {
  const offsets: number[] = [];
  row.forEach((each, index) => {
    offsets.push(index === 0 ? 0 : offsets[index - 1]! + apart(row[index - 1]!, each));
  });
  const blocks: { sum: number; count: number }[] = [];
  wanted.forEach((y, index) => {
    blocks.push({ sum: y - offsets[index]!, count: 1 });
    while (blocks.length > 1) {
      const last = blocks.at(-1)!;
      const before = blocks.at(-2)!;
      if (before.sum / before.count <= last.sum / last.count) break;
      before.sum += last.sum;
      before.count += last.count;
      blocks.pop();
    }
  });
  let at = 0;
  for (const block of blocks) {
    for (let n = 0; n < block.count; n += 1, at += 1)
      row[at]!.y = block.sum / block.count + offsets[at]!;
  }
}

function mean(spots: Spot[], of: (spot: Spot) => number): number | undefined {
  if (spots.length === 0) return undefined;
  return spots.reduce((sum, each) => sum + of(each), 0) / spots.length;
}
