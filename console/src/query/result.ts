// An answer whose rows come in pages, of which only those that are looked at are fetched.

import { call, send } from "../api/client";
import type { S } from "../api/types";
import { parseExact } from "./exact";

export const PAGE_ROWS = 2000;
export type Row = unknown[];

export interface Result {
  id: string;
  sql: string;
  columns: S<"QueryColumn">[];
  rowCount: number;
  truncated: boolean;
  elapsedMs: number;
  datasets: S<"UsedDataset">[];
  pages: Pages;
}

export async function run(
  sql: string,
  limit: number,
  at: string | null,
  id: string,
  signal: AbortSignal,
): Promise<Result> {
  const body = { sql, limit, at, query_id: id, format: "json", page_rows: PAGE_ROWS };
  const answer = await send("POST", "/v1/query", body, signal);
  const said = parseExact<S<"QueryResponse">>(await answer.text());
  return {
    id: said.query_id,
    sql,
    columns: said.columns,
    rowCount: Number(said.row_count),
    truncated: said.truncated,
    elapsedMs: said.elapsed_ms,
    datasets: said.datasets,
    pages: new Pages(said.rows, said.next ?? null),
  };
}

export class Pages {
  private readonly held = new Map<number, Row[]>();
  private readonly asked = new Set<number>();
  private readonly base: string | null;
  private readonly first: number;
  private readonly listeners = new Set<() => void>();
  problem: unknown = null;
  version = 0;

  constructor(rows: Row[], next: string | null) {
    this.held.set(0, rows);
    // `next` ends with the number of the second page.
    const found = next === null ? null : /^(.*\/)(\d+)$/.exec(next);
    this.base = found?.[1] ?? null;
    this.first = Number(found?.[2] ?? 1);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** The row, or undefined while its page is on its way. */
  row(index: number): Row | undefined {
    const page = Math.floor(index / PAGE_ROWS);
    const rows = this.held.get(page);
    if (rows === undefined) void this.fetch(page);
    return rows?.[index % PAGE_ROWS];
  }

  /** The first rows, page by page. */
  async head(count: number): Promise<Row[]> {
    const rows: Row[] = [];
    for (let page = 0; page * PAGE_ROWS < count; page += 1) {
      await this.fetch(page);
      const held = this.held.get(page);
      if (held === undefined) break;
      rows.push(...held);
    }
    return rows.slice(0, count);
  }

  private async fetch(page: number): Promise<void> {
    if (this.base === null || this.held.has(page) || this.asked.has(page)) return;
    this.asked.add(page);
    try {
      const answer = await call(`${this.base}${this.first + page - 1}`, { method: "GET" });
      this.held.set(page, parseExact<S<"QueryPage">>(await answer.text()).rows);
    } catch (error) {
      this.problem = error;
    } finally {
      this.asked.delete(page);
      this.version += 1;
      for (const listener of this.listeners) listener();
    }
  }
}
