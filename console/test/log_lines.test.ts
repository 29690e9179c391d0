import { expect, test } from "vitest";
import { LogLines } from "../src/work/log_lines";

const of = (...lines: string[]) => new LogLines(new TextEncoder().encode(lines.join("\n")));
const line = (level: string, event: string, more = {}) =>
  JSON.stringify({ timestamp: "2026-01-01T10:11:12.345678+00:00", level, event, ...more });

test("a line is what it says, its other fields beside it", () => {
  const log = of(line("info", "fetched", { blocks: 10, why: "a\nb" }), "");
  expect(log.count).toBe(1);
  expect(log.line(0)).toEqual({
    number: 0,
    time: "10:11:12.345",
    level: "info",
    event: "fetched",
    rest: "blocks=10 why=a ⏎ b",
  });
});

test("what is no object stays text, and the last line needs no end", () => {
  const log = of("no json", "[1]", '"é"', line("error", "end"));
  expect([0, 1, 2, 3].map((number) => log.line(number).event)).toEqual([
    "no json",
    "[1]",
    '"é"',
    "end",
  ]);
});

test("a search finds text of any field, in lines that are bad enough", () => {
  const log = of(
    line("info", "Fetched", { from: "0xAB" }),
    line("warning", "retried", { from: "0xab" }),
    line("critical", "gave up"),
  );
  expect(log.search("", "FROM=0xab", 0, 9)).toEqual([0, 1]);
  expect(log.search("warning", "0xab", 0, 9)).toEqual([1]);
  expect(log.search("error", "", 0, 9)).toEqual([2]);
  expect(log.search("", "", 1, 2)).toEqual([1]);
  expect(log.search("", "nothing", 0, 9)).toEqual([]);
});

test("no log has no line", () => {
  expect(of("").count).toBe(0);
});
