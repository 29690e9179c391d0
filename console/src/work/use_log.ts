import { useCallback, useEffect, useRef, useState } from "react";
import type { Asked, Kind, Said } from "./log.worker";
import type { Line } from "./log_lines";

interface Found {
  numbers: number[];
  done: boolean;
}
const NOTHING: Found = { numbers: [], done: true };
// Lines that were seen stay for a while: who scrolls back sees them at once.
const MOST_KEPT = 20_000;

export interface Log {
  count: number;
  /** The line, or undefined while it is on its way. */
  line: (number: number) => Line | undefined;
  /** Of the lines of a level; null when all are shown. */
  ofLevel: Found | null;
  hits: Found;
}

/** A log in a worker, and what is asked of it. */
export function useLog(file: Blob, level: string, text: string): Log {
  const [worker, setWorker] = useState<Worker | null>(null);
  const [count, setCount] = useState(0);
  const [, again] = useState(0);
  const held = useRef(new Map<number, Line>());
  const asked = useRef(new Set<number>());
  useEffect(() => {
    const made = new Worker(new URL("./log.worker.ts", import.meta.url), { type: "module" });
    const hear = ({ data }: MessageEvent<Said>) => {
      if (data.type === "opened") setCount(data.count);
      if (data.type !== "lines") return;
      if (held.current.size > MOST_KEPT) held.current.clear();
      for (const line of data.lines) {
        held.current.set(line.number, line);
        asked.current.delete(line.number);
      }
      again((n) => n + 1);
    };
    made.addEventListener("message", hear);
    made.postMessage({ type: "open", file } satisfies Asked);
    setWorker(made);
    return () => {
      made.terminate();
      held.current.clear();
      asked.current.clear();
    };
  }, [file]);

  const wanted = useRef<number[]>([]);
  const line = useCallback((number: number) => {
    const found = held.current.get(number);
    if (!found && !asked.current.has(number)) wanted.current.push(number);
    return found;
  }, []);
  useEffect(() => {
    if (!worker || wanted.current.length === 0) return;
    for (const number of wanted.current) asked.current.add(number);
    worker.postMessage({ type: "lines", numbers: wanted.current } satisfies Asked);
    wanted.current = [];
  });
  const ofLevel = useSearch(worker, "shown", count, level, "");
  const hits = useSearch(worker, "hits", count, text === "" ? "" : level, text);
  return { count, line, ofLevel: level === "" ? null : ofLevel, hits };
}

/** What a search found so far; nothing while nothing is looked for. */
function useSearch(
  worker: Worker | null,
  kind: Kind,
  count: number,
  level: string,
  text: string,
): Found {
  const [found, setFound] = useState(NOTHING);
  const id = useRef(0);
  useEffect(() => {
    if (!worker || (level === "" && text === "")) {
      setFound(NOTHING);
      return;
    }
    id.current += 1;
    const mine = id.current;
    setFound({ numbers: [], done: false });
    const hear = ({ data }: MessageEvent<Said>) => {
      if (data.type !== "found" || data.kind !== kind || data.id !== mine) return;
      setFound((before) => ({ numbers: before.numbers.concat(data.numbers), done: data.done }));
    };
    worker.addEventListener("message", hear);
    worker.postMessage({ type: "search", kind, id: mine, level, text } satisfies Asked);
    return () => worker.removeEventListener("message", hear);
  }, [worker, kind, count, level, text]);
  return found;
}
