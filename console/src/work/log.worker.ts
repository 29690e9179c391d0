// Holds a log and looks through it, so that the page stays usable whatever the log's length.

import { LogLines, type Line } from "./log_lines";

/** One search for what is shown and one for what is looked for in it. */
export type Kind = "shown" | "hits";
export type Asked =
  | { type: "open"; file: Blob }
  | { type: "lines"; numbers: number[] }
  | { type: "search"; kind: Kind; id: number; level: string; text: string };
export type Said =
  | { type: "opened"; count: number }
  | { type: "lines"; lines: Line[] }
  | { type: "found"; kind: Kind; id: number; numbers: number[]; done: boolean };

const AT_ONCE = 20_000;
let log = new LogLines(new Uint8Array());
const newest: Record<Kind, number> = { shown: 0, hits: 0 };

self.onmessage = async ({ data }: MessageEvent<Asked>) => {
  if (data.type === "open") {
    log = new LogLines(new Uint8Array(await data.file.arrayBuffer()));
    say({ type: "opened", count: log.count });
  } else if (data.type === "lines") {
    say({ type: "lines", lines: data.numbers.map((number) => log.line(number)) });
  } else {
    newest[data.kind] = data.id;
    look(data, 0);
  }
};

/** In parts: between two of them other questions are answered, and a newer search ends this one. */
function look(wanted: Extract<Asked, { type: "search" }>, from: number): void {
  const { kind, id, level, text } = wanted;
  if (id !== newest[kind]) return;
  const numbers = log.search(level, text, from, from + AT_ONCE);
  const done = from + AT_ONCE >= log.count;
  say({ type: "found", kind, id, numbers, done });
  if (!done) setTimeout(() => look(wanted, from + AT_ONCE));
}

function say(said: Said): void {
  self.postMessage(said);
}
