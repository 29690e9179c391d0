// The sums behind the partition map: ranges of blocks become columns of pixels.

import type { S } from "../api/types";

export type Part = S<"Partition">;
export type Measure = "state" | "rows" | "bytes" | "age";
export type PartState = "held" | "redone" | "new";

export interface Cell {
  from: number;
  to: number;
  part: Part;
  state: PartState;
}

export interface Range {
  start: number;
  end: number;
}

export interface Pixel {
  /** How much of the pixel's range is held, from 0 to 1. */
  held: number;
  state: PartState | null;
  /** Of the partitions that touch the pixel, the largest. */
  value: number;
}

export interface Open {
  start: number | null;
  end: number | null;
  key: string | null;
}

const NEW_S = 12;

/** In order; what has no range of blocks takes a place by its number. */
export function cells(parts: Part[], open: Open[], now: number): Cell[] {
  const ranged = parts.every((part) => part.start !== null && part.end !== null);
  const made = parts.map((part, index) => ({
    from: ranged ? part.start! : index,
    to: ranged ? part.end! : index,
    part,
    state: stateOf(part, open, now),
  }));
  return ranged ? made.sort((a, b) => a.from - b.from) : made;
}

function stateOf(part: Part, open: Open[], now: number): PartState {
  const wrong = open.some((each) =>
    each.start !== null && each.end !== null && part.start !== null && part.end !== null
      ? each.start <= part.end && part.start <= each.end
      : each.key === part.partition_key,
  );
  if (wrong) return "redone";
  return (now - Date.parse(part.committed_at)) / 1000 < NEW_S ? "new" : "held";
}

/** The cell that holds the block, by halving. */
export function cellAt(all: Cell[], block: number): Cell | null {
  let low = 0;
  let high = all.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const cell = all[middle]!;
    if (block < cell.from) high = middle - 1;
    else if (block > cell.to) low = middle + 1;
    else return cell;
  }
  return null;
}

/** Both ends of what is to be seen. */
export function extent(all: Cell[]): Range {
  return { start: all[0]?.from ?? 0, end: all.at(-1)?.to ?? 0 };
}

export function blockAt(x: number, width: number, view: Range): number {
  const blocks = view.end - view.start + 1;
  const at = view.start + Math.floor((x / Math.max(1, width)) * blocks);
  return Math.min(view.end, Math.max(view.start, at));
}

export function xOf(block: number, width: number, view: Range): number {
  return ((block - view.start) / (view.end - view.start + 1)) * width;
}

const WEIGHT: Record<PartState, number> = { held: 0, new: 1, redone: 2 };

/** One pass over the cells in view, however many there are. */
export function pixels(
  all: Cell[],
  view: Range,
  width: number,
  valueOf: (part: Part) => number,
): Pixel[] {
  const made: Pixel[] = Array.from({ length: width }, () => ({ held: 0, state: null, value: 0 }));
  const perPixel = (view.end - view.start + 1) / width;
  for (const cell of all) {
    if (cell.to < view.start || cell.from > view.end) continue;
    const from = Math.max(cell.from, view.start) - view.start;
    const to = Math.min(cell.to, view.end) - view.start + 1;
    const last = Math.min(width - 1, Math.ceil(to / perPixel) - 1);
    for (let x = Math.floor(from / perPixel); x <= last; x += 1) {
      const pixel = made[x];
      if (!pixel) continue;
      const inside = Math.min(to, (x + 1) * perPixel) - Math.max(from, x * perPixel);
      pixel.held = Math.min(1, pixel.held + Math.max(0, inside) / perPixel);
      if (pixel.state === null || WEIGHT[cell.state] > WEIGHT[pixel.state])
        pixel.state = cell.state;
      pixel.value = Math.max(pixel.value, valueOf(cell.part));
    }
  }
  return made;
}

export function valueOf(measure: Measure, now: number): (part: Part) => number {
  if (measure === "rows") return (part) => part.rows;
  if (measure === "bytes") return (part) => part.bytes;
  if (measure === "age") return (part) => Math.max(0, (now - Date.parse(part.committed_at)) / 1000);
  return () => 0;
}

/** Dragged from one block to another: whole partitions, where they are cut. */
export function whole(all: Cell[], a: number, b: number): Range {
  const start = Math.min(a, b);
  const end = Math.max(a, b);
  return {
    start: cellAt(all, start)?.from ?? start,
    end: cellAt(all, end)?.to ?? end,
  };
}

export function within(all: Cell[], range: Range): Cell[] {
  return all.filter((cell) => cell.from <= range.end && range.start <= cell.to);
}

const NARROWEST = 4;

/** Where partitions begin, while they are wide enough for that to be seen. */
export function borders(all: Cell[], view: Range, width: number): number[] {
  const seen = within(all, view);
  if (seen.length * NARROWEST > width) return [];
  return seen
    .filter((cell) => cell.from > view.start)
    .map((cell) => Math.round(xOf(cell.from, width, view)));
}
