import { useEffect, useState } from "react";
import type { Placed, Wanted } from "./layout.worker";
import type { Net } from "./model";

const MOST_KEPT = 12;

let worker: Worker | null = null;
const kept = new Map<string, Placed["places"]>();
const waiting = new Map<string, ((places: Placed["places"]) => void)[]>();

/** Places by name; null while they are worked out. What was laid out before is there at once. */
export function useLayout(net: Net): Placed["places"] | null {
  const key = keyOf(net);
  const [, again] = useState(0);
  useEffect(() => {
    if (kept.has(key) || net.things.length === 0) return;
    ask(key, net, () => again((n) => n + 1));
  }, [key, net]);
  return kept.get(key) ?? null;
}

function ask(key: string, net: Net, done: () => void): void {
  const stored = recall(key);
  if (stored) {
    keep(key, stored);
    return done();
  }
  const others = waiting.get(key);
  if (others) {
    others.push(done);
    return;
  }
  waiting.set(key, [done]);
  worker ??= startWorker();
  const wanted: Wanted = {
    key,
    ids: net.things.map((thing) => thing.id),
    edges: net.edges,
  };
  worker.postMessage(wanted);
}

function startWorker(): Worker {
  const made = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  made.onmessage = ({ data }: MessageEvent<Placed>) => {
    keep(data.key, data.places);
    store(data.key, data.places);
    for (const done of waiting.get(data.key) ?? []) done(data.places);
    waiting.delete(data.key);
  };
  return made;
}

function keep(key: string, places: Placed["places"]): void {
  kept.set(key, places);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value ?? "");
}

// The layout of this browser's last graphs outlives a reload.
function recall(key: string): Placed["places"] | null {
  try {
    return JSON.parse(sessionStorage.getItem(`trace.layout.${key}`) ?? "null") as
      | Placed["places"]
      | null;
  } catch {
    return null;
  }
}

function store(key: string, places: Placed["places"]): void {
  try {
    sessionStorage.setItem(`trace.layout.${key}`, JSON.stringify(places));
  } catch {
    // It is worked out again then.
  }
}

function keyOf(net: Net): string {
  let hash = 7;
  const add = (text: string) => {
    for (let at = 0; at < text.length; at += 1) hash = (hash * 31 + text.charCodeAt(at)) | 0;
  };
  for (const thing of net.things) add(thing.id);
  for (const edge of net.edges) add(`${edge.source}>${edge.target}`);
  return `${net.things.length}.${net.edges.length}.${hash}`;
}
