import { useEffect, useId, useRef, type ReactNode } from "react";
import { IconButton } from "./basics";

/** A modal dialog of the browser's own: focus stays in it, Escape closes it. */
export function Dialog({
  title,
  onClose,
  children,
  wide,
  kind = "box",
}: {
  title: string;
  onClose: (() => void) | null;
  children: ReactNode;
  wide?: boolean;
  kind?: "box" | "drawer";
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    // Left to itself a browser begins with the button that closes it.
    dialog?.querySelector<HTMLElement>("input, select, textarea")?.focus();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dialog ${kind} ${wide ? "wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onClose={() => {
        // A browser closes a dialog at the second Escape whatever was said at the first.
        if (onClose) onClose();
        else ref.current?.showModal();
      }}
      onMouseDown={(event) => {
        if (event.target === ref.current) onClose?.();
      }}
    >
      <div className="dialog-inside">
        <header>
          <h2 id={id}>{title}</h2>
          {onClose && <IconButton icon="close" label="Close" onClick={onClose} />}
        </header>
        {children}
      </div>
    </dialog>
  );
}
