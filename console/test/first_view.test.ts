import { expect, test } from "vitest";
import { firstView } from "../src/graph/first_view";
import { HEIGHT, WIDTH } from "../src/graph/size";

const chain = (count: number): Record<string, [number, number]> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${n}`, [n * 240, 0]]));
const onScreen = (places: Record<string, [number, number]>, id: string, view = VIEW(places)) => {
  const left = places[id]![0] * view.zoom + view.x;
  return left >= 0 && left + WIDTH * view.zoom <= 1000;
};
const VIEW = (places: Record<string, [number, number]>, selected: string | null = null) =>
  firstView(places, selected, 1000, 600);

test("what fits is shown whole, in the middle, and no larger than it is", () => {
  const view = VIEW(chain(2));
  expect(view.zoom).toBe(1);
  expect(view.x).toBe((1000 - (240 + WIDTH)) / 2);
  expect(view.y).toBe((600 - HEIGHT) / 2);
});

test("what is wide can be read, and begins where the data comes in", () => {
  const places = chain(40);
  expect(VIEW(places).zoom).toBeGreaterThan(0.7);
  expect(onScreen(places, "0")).toBe(true);
});

test("what is selected is seen, also at the end", () => {
  const places = chain(40);
  for (const id of ["0", "20", "39"])
    expect(onScreen(places, id, VIEW(places, id)), id).toBe(true);
});
