import { useSyncExternalStore } from "react";

let up: boolean | null = null;
const listeners = new Set<() => void>();

export function linkIs(next: boolean): void {
  up = next;
  for (const listener of listeners) listener();
}

/** Whether changes arrive; null while that is not known. */
export function useLink(): boolean | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => up,
  );
}
