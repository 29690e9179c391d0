// A state is told by shape and colour, never by colour alone.

export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "off";

const TONES: Record<string, Tone> = {
  fresh: "good",
  Completed: "good",
  passed: "good",
  ok: "good",
  CutOver: "good",
  Active: "good",
  processed: "good",
  Running: "busy",
  Building: "busy",
  open: "busy",
  Queued: "wait",
  Pending: "wait",
  waiting: "wait",
  Draining: "wait",
  Retrying: "warn",
  stale: "warn",
  warning: "warn",
  limited: "warn",
  runs_ahead: "warn",
  stalled: "warn",
  LeaseExpired: "warn",
  Paused: "warn",
  blocked: "bad",
  Failed: "bad",
  failed: "bad",
  error: "bad",
  critical: "bad",
  down: "bad",
  contradicts: "bad",
  no_key: "bad",
  Stuck: "bad",
  Dead: "bad",
  firing: "bad",
};

export function toneOf(state: string): Tone {
  return TONES[state] ?? "off";
}

export function Glyph({ tone, size = 10 }: { tone: Tone; size?: number }) {
  return (
    <svg
      className={`glyph ${tone}`}
      width={size}
      height={size}
      viewBox="0 0 10 10"
      aria-hidden="true"
    >
      {tone === "good" && <circle cx="5" cy="5" r="4" fill="currentColor" />}
      {tone === "busy" && (
        <>
          <circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" strokeWidth="1.4" />
          <path d="M5 1.4a3.6 3.6 0 0 1 0 7.2z" fill="currentColor" />
        </>
      )}
      {tone === "wait" && (
        <circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" strokeWidth="1.4" />
      )}
      {tone === "warn" && <path d="M5 .6 9.4 5 5 9.4 .6 5z" fill="currentColor" />}
      {tone === "bad" && <path d="M5 .8 9.6 9.2H.4z" fill="currentColor" />}
      {tone === "off" && <path d="M1.5 5h7" stroke="currentColor" strokeWidth="1.8" />}
    </svg>
  );
}

export function State({ state, label }: { state: string; label?: string }) {
  return (
    <span className="state">
      <Glyph tone={toneOf(state)} />
      <span>{label ?? WORDS[state] ?? state}</span>
    </span>
  );
}

const WORDS: Record<string, string> = {
  CutOver: "cut over",
  LeaseExpired: "lease expired",
  runs_ahead: "runs ahead",
  no_key: "no key",
};

/** How a failed task that will run again is called. */
export function taskState(task: { status: string; next_retry_at: string | null }): string {
  return task.status === "Failed" && task.next_retry_at !== null ? "Retrying" : task.status;
}
