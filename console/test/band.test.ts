import { expect, test } from "vitest";
import {
  blockAt,
  borders,
  cellAt,
  cells,
  pixels,
  whole,
  within,
  xOf,
  type Part,
} from "../src/band/band";

function part(start: number, end: number, rows = 1): Part {
  return {
    partition_key: `${start}-${end}`,
    start,
    end,
    rows,
    bytes: rows,
    files: 1,
    committed_at: "2026-01-01T00:00:00Z",
    task_id: null,
    attempt: null,
  };
}

const NOW = Date.parse("2026-01-02T00:00:00Z");
const made = (parts: Part[], open: Parameters<typeof cells>[1] = []) => cells(parts, open, NOW);

test("every block is found in its partition, and in a gap none is", () => {
  const all = made([part(500, 999), part(0, 249), part(250, 399)]);
  for (const [block, key] of [
    [0, "0-249"],
    [249, "0-249"],
    [250, "250-399"],
    [500, "500-999"],
    [999, "500-999"],
  ] as const) {
    expect(cellAt(all, block)?.part.partition_key).toBe(key);
  }
  expect([400, 499, 1000, -1].map((block) => cellAt(all, block))).toEqual([null, null, null, null]);
});

test("a pixel says how much of its range is held", () => {
  const all = made([part(0, 49), part(75, 99)]);
  const seen = pixels(all, { start: 0, end: 99 }, 4, () => 0);
  expect(seen.map((pixel) => pixel.held)).toEqual([1, 1, 0, 1]);
  expect(pixels(all, { start: 0, end: 99 }, 1, () => 0)[0]?.held).toBeCloseTo(0.75);
});

test("of many partitions in one pixel the largest value and the worst state count", () => {
  const all = made(
    [part(0, 9, 5), part(10, 19, 80), part(20, 29, 1)],
    [{ start: 25, end: 26, key: null }],
  );
  const [pixel] = pixels(all, { start: 0, end: 29 }, 1, (each) => each.rows);
  expect(pixel).toMatchObject({ value: 80, state: "redone" });
});

test("what is dragged becomes whole partitions, from either end", () => {
  const all = made([part(0, 249), part(250, 499)]);
  expect(whole(all, 300, 100)).toEqual({ start: 0, end: 499 });
  expect(whole(all, 260, 270)).toEqual({ start: 250, end: 499 });
  expect(within(all, { start: 249, end: 250 })).toHaveLength(2);
});

test("a place on the band and its block agree", () => {
  const view = { start: 1000, end: 1999 };
  for (const block of [1000, 1500, 1999])
    expect(blockAt(xOf(block, 800, view) + 0.01, 800, view)).toBe(block);
  expect([blockAt(-5, 800, view), blockAt(900, 800, view)]).toEqual([1000, 1999]);
});

test("borders are drawn only while they can be told apart", () => {
  const all = made(Array.from({ length: 100 }, (_, index) => part(index * 10, index * 10 + 9)));
  expect(borders(all, { start: 0, end: 999 }, 1000)).toHaveLength(99);
  expect(borders(all, { start: 0, end: 999 }, 200)).toEqual([]);
});

test("partitions that are no block ranges stand beside each other", () => {
  const named = { ...part(0, 0), partition_key: "a", start: null, end: null };
  const all = made([named, { ...named, partition_key: "b" }]);
  expect(all.map((cell) => [cell.from, cell.to])).toEqual([
    [0, 0],
    [1, 1],
  ]);
});

test("200,000 partitions are summed up for a band without a wait that is felt", () => {
  const all = made(
    Array.from({ length: 200_000 }, (_, index) => part(index * 10, index * 10 + 9, index)),
  );
  const seen = pixels(all, { start: 0, end: 1_999_999 }, 1000, (each) => each.rows);
  expect(seen).toHaveLength(1000);
  expect(seen.every((pixel) => pixel.held > 0.999)).toBe(true);
});
