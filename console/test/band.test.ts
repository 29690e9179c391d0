import { expect, test } from "vitest";
import {
  amount,
  blockAt,
  borders,
  indexAt,
  partAt,
  partsOf,
  pixels,
  whole,
  xOf,
  zoomed,
  type Open,
  type Parts,
} from "../src/band/band";

const NOW = Date.parse("2026-01-02T00:00:00Z");

function made(ranges: [number, number, number?][]): Parts {
  const of = <T>(value: T): T[] => ranges.map(() => value);
  const rows = ranges.map(([, , each]) => each ?? 1);
  return partsOf([
    {
      start: ranges.map(([start]) => start),
      end: ranges.map(([, end]) => end),
      key: of(null),
      rows,
      bytes: rows,
      files: of(1),
      committed_ms: of(NOW - 86_400_000),
      task_id: of(null),
      attempt: of(null),
    },
  ]);
}

const seen = (parts: Parts, start: number, end: number, width: number, open: Open[] = []) =>
  pixels(parts, open, NOW, { start, end }, width, (index) => parts.rows[index]!);

test("every block is found in its partition, and in a gap none is", () => {
  const parts = made([[0, 249], [250, 399], [500, 999]]);
  for (const [block, key] of [
    [0, "0-249"],
    [249, "0-249"],
    [250, "250-399"],
    [500, "500-999"],
    [999, "500-999"],
  ] as const) {
    expect(partAt(parts, indexAt(parts, block)).key).toBe(key);
  }
  expect([400, 499, 1000, -1].map((block) => indexAt(parts, block))).toEqual([-1, -1, -1, -1]);
});

test("a pixel says how much of its range is held", () => {
  const parts = made([[0, 49], [75, 99]]);
  expect(seen(parts, 0, 99, 4).map((pixel) => pixel.held)).toEqual([1, 1, 0, 1]);
  expect(seen(parts, 0, 99, 1)[0]?.held).toBeCloseTo(0.75);
  // A part of a partition that begins before what is seen, and of one that ends after it.
  expect(seen(parts, 25, 89, 13).map((pixel) => pixel.held > 0)).toEqual(
    Array.from({ length: 13 }, (_, x) => x < 5 || x > 9),
  );
});

test("of many partitions in one pixel the largest value and the worst state count", () => {
  const parts = made([[0, 9, 5], [10, 19, 80], [20, 29, 1]]);
  const [pixel] = seen(parts, 0, 29, 1, [{ start: 25, end: 26, key: null }]);
  expect(pixel).toMatchObject({ value: 80, state: "redone" });
});

test("only what an invalidation reaches is being done again, however they overlap", () => {
  const parts = made([[0, 9], [10, 19], [20, 29], [30, 39], [40, 49]]);
  const open = [
    { start: 35, end: 36, key: null },
    { start: 0, end: 4, key: null },
    { start: 3, end: 12, key: null },
    { start: null, end: null, key: "other" },
  ];
  const states = seen(parts, 0, 49, 5, open).map((pixel) => pixel.state);
  expect(states).toEqual(["redone", "redone", "held", "redone", "held"]);
});

test("what is dragged becomes whole partitions, from either end", () => {
  const parts = made([[0, 249, 7], [250, 499, 8], [600, 699, 9]]);
  expect(whole(parts, 300, 100)).toEqual({ start: 0, end: 499 });
  expect(whole(parts, 260, 270)).toEqual({ start: 250, end: 499 });
  expect(amount(parts, { start: 249, end: 250 })).toEqual({ partitions: 2, rows: 15 });
  expect(amount(parts, { start: 500, end: 599 })).toEqual({ partitions: 0, rows: 0 });
  expect(amount(parts, { start: 0, end: 5000 })).toEqual({ partitions: 3, rows: 24 });
});

test("a place on the band and its block agree", () => {
  const view = { start: 1000, end: 1999 };
  for (const block of [1000, 1500, 1999])
    expect(blockAt(xOf(block, 800, view) + 0.01, 800, view)).toBe(block);
  expect([blockAt(-5, 800, view), blockAt(900, 800, view)]).toEqual([1000, 1999]);
});

test("zooming keeps the block where it is, inside the whole range", () => {
  const all = { start: 0, end: 999 };
  expect(zoomed(all, all, 500, 0.5)).toEqual({ start: 250, end: 749 });
  expect(zoomed({ start: 0, end: 99 }, all, 0, 0.5)).toEqual({ start: 0, end: 49 });
  expect(zoomed({ start: 900, end: 999 }, all, 999, 0.5)?.end).toBe(999);
  expect(zoomed({ start: 250, end: 749 }, all, 500, 2)).toBeNull();
});

test("borders are drawn only while they can be told apart", () => {
  const parts = made(
    Array.from({ length: 100 }, (_, n): [number, number] => [n * 10, n * 10 + 9]),
  );
  expect(borders(parts, { start: 0, end: 999 }, 1000)).toHaveLength(99);
  expect(borders(parts, { start: 0, end: 999 }, 200)).toEqual([]);
});

test("partitions that are no block ranges stand beside each other", () => {
  const none = [null, null];
  const numbers = [1, 1];
  const parts = partsOf([
    {
      start: none,
      end: none,
      key: ["a", "b"],
      rows: numbers,
      bytes: numbers,
      files: numbers,
      committed_ms: numbers,
      task_id: none,
      attempt: none,
    },
  ]);
  expect([indexAt(parts, 0), indexAt(parts, 1), indexAt(parts, 2)]).toEqual([0, 1, -1]);
  const [, second] = seen(parts, 0, 1, 2, [{ start: null, end: null, key: "b" }]);
  expect([partAt(parts, 1).key, second?.state]).toEqual(["b", "redone"]);
});

test("200,000 partitions are summed up for a band without a wait that is felt", () => {
  const parts = made(
    Array.from({ length: 200_000 }, (_, n): [number, number, number] => [
      n * 10,
      n * 10 + 9,
      n,
    ]),
  );
  const found = seen(parts, 0, 1_999_999, 1000);
  expect(found).toHaveLength(1000);
  expect(found.every((pixel) => pixel.held > 0.999)).toBe(true);
});
