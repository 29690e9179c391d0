// Which of the shown data a change is about: each query says in its `meta` what it hangs on.

import type { Query, QueryClient } from "@tanstack/react-query";
import type { Change, Kind, Told } from "./live";

export interface LiveMeta extends Record<string, unknown> {
  on?: readonly Kind[];
  /** Only changes of this id; without it, of any. */
  id?: string;
}

declare module "@tanstack/react-query" {
  interface Register {
    queryMeta: LiveMeta;
  }
}

// Together with the gateway's 100 ms and a call this stays well below half a second.
const FLUSH_MS = 150;

export function concerns(meta: LiveMeta | undefined, change: Change): boolean {
  if (!meta?.on?.includes(change.kind)) return false;
  return meta.id === undefined || change.id === null || meta.id === change.id;
}

export class Refresher {
  private readonly dirty = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly client: QueryClient) {
    document.addEventListener("visibilitychange", () => this.plan());
  }

  heard(told: Told): void {
    if (told.type === "link") return;
    for (const query of this.client.getQueryCache().getAll()) {
      if (!query.meta?.on) continue;
      if (told.type === "resync" || told.changes.some((each) => concerns(query.meta, each))) {
        this.dirty.add(query.queryHash);
      }
    }
    this.plan();
  }

  private plan(): void {
    // A page that nobody sees asks for nothing; it catches up when it is looked at.
    if (this.dirty.size === 0 || this.timer !== null || document.hidden) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.flush();
    }, FLUSH_MS);
  }

  private flush(): void {
    const cache = this.client.getQueryCache();
    for (const hash of [...this.dirty]) {
      const query = cache.get(hash);
      // An answer that is under way may lack what just changed: it is asked for again after.
      if (query && query.state.fetchStatus === "fetching") continue;
      this.dirty.delete(hash);
      if (query) void this.renew(query);
    }
    this.plan();
  }

  private renew(query: Query): Promise<void> {
    return this.client.invalidateQueries({ queryKey: query.queryKey, exact: true });
  }
}
