import { expect, test } from "vitest";
import { concerns } from "../src/live/refresh";
import { EventParser, type Sent } from "../src/live/sse";

function parsed(...pieces: string[]): Sent[] {
  const found: Sent[] = [];
  const parser = new EventParser((sent) => found.push(sent));
  for (const piece of pieces) parser.feed(piece);
  return found;
}

test("an event is whole however it was cut on the way", () => {
  const sent = ': connected\nretry: 1000\n\nid: a-1\nevent: change\ndata: {"changes": []}\n\n';
  const expected = [{ event: "change", data: '{"changes": []}', id: "a-1" }];
  expect(parsed(sent)).toEqual(expected);
  expect(parsed(...sent)).toEqual(expected);
  expect(parsed(sent.replaceAll("\n", "\r\n"))).toEqual(expected);
});

test("a comment is no event, and what has not ended is none yet", () => {
  expect(parsed(": beat\n\n", "event: resync\ndata: {}\n")).toEqual([]);
});

test("a change concerns what hangs on its kind, and on its id if that is known", () => {
  const one = { on: ["task"], id: "7" } as const;
  expect(concerns(one, { kind: "task", id: "7" })).toBe(true);
  expect(concerns(one, { kind: "task", id: null })).toBe(true);
  expect(concerns(one, { kind: "task", id: "8" })).toBe(false);
  expect(concerns({ on: ["task"] }, { kind: "task", id: "8" })).toBe(true);
  expect(concerns(one, { kind: "dataset", id: "7" })).toBe(false);
  expect(concerns(undefined, { kind: "task", id: "7" })).toBe(false);
});
