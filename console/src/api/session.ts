// Who is logged in. A call that finds the session over waits here until it is open again, in this
// tab or in another one.

// The same in pages/login.js of the gateway.
const KEY = "trace.session";

type Listener = () => void;
type State = "open" | "over";

let state: State = "open";
let waiting: (() => void)[] = [];
const listeners = new Set<Listener>();
const otherTabs =
  typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("trace-session");
otherTabs?.addEventListener("message", () => sessionOpen(false));

export const sessionState = {
  subscribe: (listener: Listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  current: () => state,
};

/** What a call sends beside the cookie, which pages of other ports have too. */
export function ofThisSession(): Record<string, string> {
  return { "X-Trace-CSRF": localStorage.getItem(KEY) ?? "none" };
}

export function keepKey(key: string): void {
  localStorage.setItem(KEY, key);
}

/** Resolves once somebody logged in again. */
export function sessionOver(signal: AbortSignal | null): Promise<void> {
  change("over");
  return new Promise((resolve, reject) => {
    waiting.push(resolve);
    signal?.addEventListener("abort", () => reject(new DOMException("Aborted", "AbortError")));
  });
}

export function sessionOpen(tellOthers = true): void {
  change("open");
  const free = waiting;
  waiting = [];
  for (const go of free) go();
  if (tellOthers) otherTabs?.postMessage("open");
}

/** The code of a login link: all of the link may be pasted. */
export function codeOf(pasted: string): string {
  return pasted.trim().split("#").at(-1)?.trim() ?? "";
}

function change(next: State): void {
  if (state === next) return;
  state = next;
  for (const listener of listeners) listener();
}
