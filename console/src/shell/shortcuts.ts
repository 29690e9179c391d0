import { useEffect } from "react";

/** Whether keys belong to what is typed into. */
export function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(
    element?.closest?.("input,textarea,select,[contenteditable=true],.cm-editor"),
  );
}

/** `handlers` by key: one letter, or two after each other such as "g r". */
export function useKeys(handlers: Record<string, () => void>, active = true): void {
  useEffect(() => {
    if (!active) return;
    let before = "";
    let timer: ReturnType<typeof setTimeout>;
    const down = (event: KeyboardEvent) => {
      const { key } = event;
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
  });
}
