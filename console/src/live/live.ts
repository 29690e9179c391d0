// What changed, told to every tab: one of them holds the stream (a Web Lock says which), and passes
// on what it hears. Another takes over when it is closed.

import { ofThisSession, sessionOver } from "../api/session";
import { EventParser, type Sent } from "./sse";

export type Kind =
  | "task"
  | "job"
  | "dataset"
  | "head"
  | "dag"
  | "backfill"
  | "invalidation"
  | "alert";
export interface Change {
  kind: Kind;
  id: string | null;
}
export type Told =
  | { type: "changes"; changes: Change[]; id: string | null }
  | { type: "resync"; id: string | null }
  | { type: "link"; up: boolean };

const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 10_000;

export function listen(onTold: (told: Told) => void): () => void {
  const stop = new AbortController();
  const channel =
    typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("trace-live");
  let lastId: string | null = null;
  const hear = (told: Told) => {
    if (told.type !== "link" && told.id !== null) lastId = told.id;
    onTold(told);
  };
  channel?.addEventListener("message", (message: MessageEvent<Told>) => hear(message.data));
  const tell = (told: Told) => {
    channel?.postMessage(told);
    hear(told);
  };
  const lead = () => keepReading(stop.signal, () => lastId, tell);
  // Without locks (a page over plain HTTP from another machine) each tab has a stream of its own.
  if ("locks" in navigator) {
    void navigator.locks
      .request("trace-live", { signal: stop.signal }, lead)
      .catch(() => undefined);
  } else void lead();
  return () => {
    stop.abort();
    channel?.close();
  };
}

async function keepReading(
  stopped: AbortSignal,
  lastId: () => string | null,
  tell: (told: Told) => void,
): Promise<void> {
  let pause = FIRST_PAUSE_MS;
  let first = true;
  while (!stopped.aborted) {
    const began = Date.now();
    try {
      await readOnce(stopped, lastId(), tell, () => {
        // Whatever was missed while nobody listened and no id says where to go on.
        if (first || lastId() === null) tell({ type: "resync", id: null });
        first = false;
        tell({ type: "link", up: true });
      });
    } catch {
      // The pause below, then another try.
    }
    if (stopped.aborted) return;
    tell({ type: "link", up: false });
    pause = Date.now() - began > SILENCE_MS ? FIRST_PAUSE_MS : pause;
    await sleep(pause, stopped);
    pause = Math.min(pause * 1.6, LONGEST_PAUSE_MS);
  }
}

async function readOnce(
  stopped: AbortSignal,
  lastId: string | null,
  tell: (told: Told) => void,
  onOpen: () => void,
): Promise<void> {
  const connection = new AbortController();
  const end = () => connection.abort();
  stopped.addEventListener("abort", end);
  let watchdog = setTimeout(end, SILENCE_MS);
  try {
    const answer = await fetch("/v1/live", {
      headers: { ...ofThisSession(), ...(lastId === null ? {} : { "Last-Event-ID": lastId }) },
      signal: connection.signal,
    });
    if (answer.status === 401) return await sessionOver(stopped);
    if (!answer.ok || !answer.body) return;
    onOpen();
    const parser = new EventParser((sent) => pass(sent, tell, end));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(end, SILENCE_MS);
      parser.feed(value);
    }
  } finally {
    clearTimeout(watchdog);
    stopped.removeEventListener("abort", end);
  }
}

function pass(sent: Sent, tell: (told: Told) => void, end: () => void): void {
  if (sent.event === "expired") end();
  else if (sent.event === "resync") tell({ type: "resync", id: sent.id });
  else if (sent.event === "change") {
    const { changes } = JSON.parse(sent.data) as { changes: Change[] };
    tell({ type: "changes", changes, id: sent.id });
  }
}

function sleep(ms: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stopped.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
