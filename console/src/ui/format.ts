// Figures and times as people read them.

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** 1,234,567 as 1.23 M. */
export function short(value: number): string {
  for (const [limit, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ] as const) {
    if (Math.abs(value) >= limit) {
      const of = unit === "k" ? value / 1e3 : value / limit;
      return `${of.toFixed(of >= 100 ? 0 : of >= 10 ? 1 : 2)} ${unit}`;
    }
  }
  return count(value);
}

export function bytes(value: number): string {
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? left.toFixed(0) : left.toFixed(1)} ${UNITS[unit] ?? ""}`;
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86_400) {
    return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  }
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function ago(seconds: number): string {
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function sinceIso(iso: string, now: number): number {
  return Math.max(0, (now - Date.parse(iso)) / 1000);
}

export function clock(iso: string): string {
  const at = new Date(iso);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function shortId(id: string): string {
  return id.length > 13 ? id.slice(-8) : id;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
