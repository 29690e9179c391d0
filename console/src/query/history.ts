// Statements are kept in this browser: the instance keeps their hash alone.

const KEY = "trace.queries";
const DRAFT = "trace.draft";
const MOST = 100;

export interface Past {
  id: string;
  sql: string;
  at: string;
  rows: number | null;
  ms: number | null;
  error: string | null;
}

export function past(): Past[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as Past[];
  } catch {
    return [];
  }
}

export function remember(entry: Past): Past[] {
  const kept = [entry, ...past().filter((each) => each.sql !== entry.sql)].slice(0, MOST);
  keep(KEY, JSON.stringify(kept));
  return kept;
}

export function draft(): string | null {
  try {
    return localStorage.getItem(DRAFT);
  } catch {
    return null;
  }
}

export function keepDraft(sql: string): void {
  keep(DRAFT, sql);
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing has no history.
  }
}
