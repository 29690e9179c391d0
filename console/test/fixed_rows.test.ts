import { expect, test } from "vitest";
import { seenRows, tallness } from "../src/ui/fixed_rows";

test("what is seen of few rows is where they are", () => {
  const seen = seenRows(1000, 20, 200, 100, 0);
  expect([seen.first, seen.last, seen.topOf(10)]).toEqual([10, 15, 200]);
  expect(seenRows(3, 20, 0, 100, 5)).toMatchObject({ first: 0, last: 2 });
});

test("the end of two million rows is reached, and they stand where one looks", () => {
  const count = 2_000_000;
  const height = 400;
  const end = tallness(count, 20) - height;
  const seen = seenRows(count, 20, end, height, 0);
  expect(seen.last).toBe(count - 1);
  expect(seen.topOf(count - 1) + 20).toBeCloseTo(end + height);
  const middle = seenRows(count, 20, end / 2, height, 0);
  expect(middle.first).toBeGreaterThan(count / 2 - 50);
  expect(middle.topOf(middle.first)).toBeGreaterThan(end / 2 - 20);
});
