// The sums behind the partition map: ranges of blocks become columns of pixels. Partitions are in
// columns too, so that 200,000 of them are a few arrays and not as many objects.

import type { S } from "../api/types";

export type Columns = S<"PartitionColumns">;
export type Measure = "state" | "rows" | "bytes" | "age";
export type PartState = "held" | "redone" | "new";

export interface Parts {
  count: number;
  /** Whether they are ranges of blocks; else each takes a place by its number. */
  ranged: boolean;
  from: Float64Array;
  to: Float64Array;
  rows: Float64Array;
  bytes: Float64Array;
  committed: Float64Array;
  /** Rows of all that come before, so that the rows of a range are a difference. */
  rowsBefore: Float64Array;
  columns: Omit<Columns, "next" | "dataset_version">;
}

export interface Part {
  key: string;
  rows: number;
  bytes: number;
  files: number;
  committed: number;
  task: string | null;
  attempt: number | null;
}

export interface Range {
  start: number;
  end: number;
}

export interface Open {
  start: number | null;
  end: number | null;
  key: string | null;
}

export interface Pixel {
  /** How much of the pixel's range is held, from 0 to 1. */
  held: number;
  state: PartState | null;
  /** Of the partitions that touch the pixel, the largest. */
  value: number;
}

const NEW_MS = 12_000;
const NARROWEST = 4;

/** In order, as the pages have them. */
export function partsOf(pages: Omit<Columns, "next" | "dataset_version">[]): Parts {
  const columns = joined(pages);
  const count = columns.rows.length;
  const ranged = columns.start.every((each) => each !== null);
  const rowsBefore = new Float64Array(count + 1);
  columns.rows.forEach((rows, index) => {
    rowsBefore[index + 1] = rowsBefore[index]! + rows;
  });
  const places = Float64Array.from({ length: count }, (_, index) => index);
  return {
    count,
    ranged,
    from: ranged ? Float64Array.from(columns.start as number[]) : places,
    to: ranged ? Float64Array.from(columns.end as number[]) : places,
    rows: Float64Array.from(columns.rows),
    bytes: Float64Array.from(columns.bytes),
    committed: Float64Array.from(columns.committed_ms),
    rowsBefore,
    columns,
  };
}

function joined(pages: Parts["columns"][]): Parts["columns"] {
  const all = <Name extends keyof Parts["columns"]>(name: Name): Parts["columns"][Name] =>
    ([] as never[]).concat(...pages.map((page) => page[name] as never[])) as Parts["columns"][Name];
  return {
    start: all("start"),
    end: all("end"),
    key: all("key"),
    rows: all("rows"),
    bytes: all("bytes"),
    files: all("files"),
    committed_ms: all("committed_ms"),
    task_id: all("task_id"),
    attempt: all("attempt"),
  };
}

export function partAt(parts: Parts, index: number): Part {
  const { columns } = parts;
  return {
    key: columns.key[index] ?? `${columns.start[index]}-${columns.end[index]}`,
    rows: columns.rows[index]!,
    bytes: columns.bytes[index]!,
    files: columns.files[index]!,
    committed: columns.committed_ms[index]!,
    task: columns.task_id[index] ?? null,
    attempt: columns.attempt[index] ?? null,
  };
}

/** The partition that holds the block, by halving; -1 when none does. */
export function indexAt(parts: Parts, block: number): number {
  const index = firstReaching(parts, block);
  return index < parts.count && parts.from[index]! <= block ? index : -1;
}

/** The first partition that ends at the block or later. */
export function firstReaching(parts: Parts, block: number): number {
  let low = 0;
  let high = parts.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (parts.to[middle]! < block) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first partition that begins after the block. */
function firstBeyond(parts: Parts, block: number): number {
  let low = 0;
  let high = parts.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (parts.from[middle]! <= block) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Both ends of what is to be seen. */
export function extent(parts: Parts): Range {
  return { start: parts.from[0] ?? 0, end: parts.to[parts.count - 1] ?? 0 };
}

/** How much lies in the range or reaches into it. */
export function amount(parts: Parts, range: Range): { partitions: number; rows: number } {
  const first = firstReaching(parts, range.start);
  const beyond = Math.max(first, firstBeyond(parts, range.end));
  return {
    partitions: beyond - first,
    rows: parts.rowsBefore[beyond]! - parts.rowsBefore[first]!,
  };
}

export function blockAt(x: number, width: number, view: Range): number {
  const blocks = view.end - view.start + 1;
  const at = view.start + Math.floor((x / Math.max(1, width)) * blocks);
  return Math.min(view.end, Math.max(view.start, at));
}

export function xOf(block: number, width: number, view: Range): number {
  return ((block - view.start) / (view.end - view.start + 1)) * width;
}

/** Half of what is seen, or twice as much, around a block that stays where it is. */
export function zoomed(view: Range, whole: Range, block: number, factor: number): Range | null {
  const blocks = view.end - view.start + 1;
  const wanted = Math.max(2, Math.round(blocks * factor));
  if (wanted >= whole.end - whole.start + 1) return null;
  const before = Math.floor(((block - view.start) / blocks) * wanted);
  const start = Math.min(Math.max(whole.start, block - before), whole.end - wanted + 1);
  return { start, end: start + wanted - 1 };
}

const WEIGHT: Record<PartState, number> = { held: 0, new: 1, redone: 2 };

/** One pass over the partitions in view, however many there are. */
export function pixels(
  parts: Parts,
  open: Open[],
  now: number,
  view: Range,
  width: number,
  valueOf: (index: number) => number,
): Pixel[] {
  const made: Pixel[] = Array.from({ length: width }, () => ({ held: 0, state: null, value: 0 }));
  const perPixel = (view.end - view.start + 1) / width;
  const wrong = redone(parts, open);
  const beyond = firstBeyond(parts, view.end);
  for (let index = firstReaching(parts, view.start); index < beyond; index += 1) {
    const from = Math.max(parts.from[index]!, view.start) - view.start;
    const to = Math.min(parts.to[index]!, view.end) - view.start + 1;
    const last = Math.min(width - 1, Math.ceil(to / perPixel) - 1);
    const fresh = now - parts.committed[index]! < NEW_MS;
    const state: PartState = wrong(index) ? "redone" : fresh ? "new" : "held";
    const value = valueOf(index);
    for (let x = Math.floor(from / perPixel); x <= last; x += 1) {
      const pixel = made[x]!;
      const inside = Math.min(to, (x + 1) * perPixel) - Math.max(from, x * perPixel);
      pixel.held = Math.min(1, pixel.held + Math.max(0, inside) / perPixel);
      if (pixel.state === null || WEIGHT[state] > WEIGHT[pixel.state]) pixel.state = state;
      if (value > pixel.value) pixel.value = value;
    }
  }
  return made;
}

/** Whether a partition is being done again; asked in the order of the partitions. */
function redone(parts: Parts, open: Open[]): (index: number) => boolean {
  const keys = new Set(open.flatMap((each) => (each.key === null ? [] : [each.key])));
  if (!parts.ranged) return (index) => keys.has(parts.columns.key[index] ?? "");
  const ranges = merged(open);
  let at = 0;
  return (index) => {
    while (at < ranges.length && ranges[at]!.end < parts.from[index]!) at += 1;
    return at < ranges.length && ranges[at]!.start <= parts.to[index]!;
  };
}

function merged(open: Open[]): Range[] {
  const found: Range[] = [];
  const ranges = open.flatMap(({ start, end }) =>
    start === null || end === null ? [] : [{ start, end }],
  );
  for (const each of ranges.sort((a, b) => a.start - b.start)) {
    const last = found.at(-1);
    if (last && each.start <= last.end) last.end = Math.max(last.end, each.end);
    else found.push(each);
  }
  return found;
}

export function valueOf(parts: Parts, measure: Measure, now: number): (index: number) => number {
  if (measure === "rows") return (index) => parts.rows[index]!;
  if (measure === "bytes") return (index) => parts.bytes[index]!;
  if (measure === "age") return (index) => Math.max(0, (now - parts.committed[index]!) / 1000);
  return () => 0;
}

export function largest(parts: Parts, of: (index: number) => number): number {
  let most = 0;
  for (let index = 0; index < parts.count; index += 1) most = Math.max(most, of(index));
  return most;
}

/** Dragged from one block to another: whole partitions, where they are cut. */
export function whole(parts: Parts, a: number, b: number): Range {
  const start = Math.min(a, b);
  const end = Math.max(a, b);
  const first = indexAt(parts, start);
  const last = indexAt(parts, end);
  return {
    start: first < 0 ? start : parts.from[first]!,
    end: last < 0 ? end : parts.to[last]!,
  };
}

/** Where partitions begin, while they are wide enough for that to be seen. */
export function borders(parts: Parts, view: Range, width: number): number[] {
  if (amount(parts, view).partitions * NARROWEST > width) return [];
  const found: number[] = [];
  for (let index = firstReaching(parts, view.start); index < parts.count; index += 1) {
    const from = parts.from[index]!;
    if (from > view.end) break;
    if (from > view.start) found.push(Math.round(xOf(from, width, view)));
  }
  return found;
}
