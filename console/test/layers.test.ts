import { expect, test } from "vitest";
import { layers } from "../src/graph/layers";
import { HEIGHT, WIDTH } from "../src/graph/size";

const edge = (pair: string) => ({ source: pair[0]!, target: pair[1]! });
const laid = (ids: string, ...edges: string[]) => layers([...ids], edges.map(edge));

/** How many pairs of boxes lie over each other. */
function overlaps(places: Record<string, [number, number]>): number {
  const all = Object.values(places).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return all.filter((each, index) => {
    const next = all[index + 1];
    return next && next[0] === each[0] && next[1] - each[1] < HEIGHT;
  }).length;
}

test("everything is right of what it comes from", () => {
  const places = laid("abcde", "ab", "bc", "ac", "cd", "ae");
  for (const pair of ["ab", "bc", "ac", "cd", "ae"]) {
    const { source, target } = edge(pair);
    expect(places[target]![0], pair).toBeGreaterThanOrEqual(places[source]![0] + WIDTH);
  }
});

test("a chain is a straight line, and of a fork both arms lie beside it", () => {
  const chain = laid("abc", "ab", "bc");
  expect(new Set(Object.values(chain).map(([, y]) => y)).size).toBe(1);
  const fork = laid("abcd", "ab", "ac", "bd", "cd");
  expect(fork.a![1]).toBe(fork.d![1]);
  expect(fork.b![1] + fork.c![1]).toBeCloseTo(2 * fork.a![1], -1);
});

test("an edge over a layer does not go through what stands there", () => {
  const places = laid("abc", "ab", "bc", "ac");
  const line = (places.a![1] + places.c![1]) / 2 + HEIGHT / 2;
  expect(line < places.b![1] || line > places.b![1] + HEIGHT).toBe(true);
});

test("two chains do not cross", () => {
  const places = laid("axbyz", "ab", "xy", "yz");
  const above = places.a![1] < places.x![1];
  expect(places.b![1] < places.y![1]).toBe(above);
});

test("what is in a circle, unknown or alone has a place all the same", () => {
  const places = laid("abcd", "ab", "ba", "bc", "ax", "cc");
  expect(Object.keys(places).sort()).toEqual(["a", "b", "c", "d"]);
  expect(overlaps(places)).toBe(0);
});

test("2,000 things are laid out, none over another", () => {
  const ids = Array.from({ length: 2000 }, (_, n) => `n${n}`);
  const edges = ids.slice(1).flatMap((target, index) =>
    [index >> 1, Math.floor(index / 3)].map((from) => ({ source: ids[from]!, target })),
  );
  const places = layers(ids, edges);
  expect(Object.keys(places)).toHaveLength(2000);
  expect(overlaps(places)).toBe(0);
});
