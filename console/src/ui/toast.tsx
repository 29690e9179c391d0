import { useSyncExternalStore } from "react";
import { asProblem } from "../api/client";
import { IconButton } from "./basics";

interface Toast {
  id: number;
  text: string;
  hint: string | null;
  bad: boolean;
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(to: Toast[]): void {
  toasts = to;
  for (const listener of listeners) listener();
}

export function say(text: string): void {
  const id = next++;
  change([...toasts.slice(-2), { id, text, hint: null, bad: false }]);
  setTimeout(() => dismiss(id), 5000);
}

/** Stays until it is read: what failed is worth more than a moment. */
export function complain(error: unknown): void {
  const problem = asProblem(error);
  change([
    ...toasts.slice(-2),
    { id: next++, text: problem.message, hint: problem.hint, bad: true },
  ]);
}

function dismiss(id: number): void {
  change(toasts.filter((each) => each.id !== id));
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((each) => (
        <div key={each.id} className={each.bad ? "toast bad" : "toast"}>
          <div>
            {each.text}
            {each.hint !== null && <small>{each.hint}</small>}
          </div>
          <IconButton icon="close" label="Dismiss" onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
