import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();

export function theme(): string {
  return document.documentElement.dataset.theme ?? "light";
}

export function toggleTheme(): void {
  const next = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("trace.theme", next);
  } catch {
    // It holds for this page then.
  }
  for (const listener of listeners) listener();
}

export function useTheme(): string {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, theme);
}
