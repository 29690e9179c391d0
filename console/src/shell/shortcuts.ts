import { useEffect, useRef } from "react";

/** Whether keys belong to what is typed into. */
export function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input,textarea,select,[contenteditable=true],.cm-editor"));
}

/** `handlers` by key: one letter, or two after each other such as "g r". */
export function useKeys(given: Record<string, () => void>): void {
  const now = useRef(given);
  now.current = given;
  useEffect(() => {
    let before = "";
    let timer: ReturnType<typeof setTimeout>;
    const down = (event: KeyboardEvent) => {
      const { key } = event;
      const handlers = now.current;
      if ((event.metaKey || event.ctrlKey) && key.toLowerCase() === "k") {
        event.preventDefault();
        handlers["mod+k"]?.();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || typing(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const handler = handlers[before ? `${before} ${key}` : key];
      before = !before && key === "g" ? key : "";
      clearTimeout(timer);
      timer = setTimeout(() => (before = ""), 1200);
      if (handler) {
        event.preventDefault();
        handler();
      }
    };
    window.addEventListener("keydown", down);
    return () => {
      window.removeEventListener("keydown", down);
      clearTimeout(timer);
    };
  }, []);
}
