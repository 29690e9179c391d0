import { useState, type ButtonHTMLAttributes, type ReactNode } from "react";
import { ago, clock, sinceIso } from "./format";
import { Icon, type IconName } from "./icons";
import { useNow } from "./now";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon?: IconName;
  look?: "plain" | "main" | "danger" | "quiet";
}

export function Button({ icon, look = "plain", children, className, ...rest }: ButtonProps) {
  return (
    <button type="button" className={`button ${look} ${className ?? ""}`} {...rest}>
      {icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  );
}

export function IconButton({
  icon,
  label,
  ...rest
}: { icon: IconName; label: string } & ButtonProps) {
  return (
    <button type="button" className="icon-button" aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span className="faint">never</span>;
  return (
    <time dateTime={at} title={clock(at)}>
      {ago(sinceIso(at, now))}
    </time>
  );
}

export function Card({
  title,
  aside,
  children,
  className,
}: {
  title?: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section className={`card ${className ?? ""}`}>
      {title !== undefined && (
        <header className="card-head">
          <h2>{title}</h2>
          {aside !== undefined && <div className="card-aside">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export function Figure({
  label,
  children,
  note,
}: {
  label: string;
  children: ReactNode;
  note?: ReactNode;
}) {
  return (
    <div className="figure">
      <div className="figure-label">{label}</div>
      <div className="figure-value">{children}</div>
      {note !== undefined && <div className="figure-note">{note}</div>}
    </div>
  );
}

export function Tag({ children }: { children: ReactNode }) {
  return <span className="tag">{children}</span>;
}

/** A command to type, with a button that copies it. */
export function Command({ children }: { children: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(children).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <span className="command">
      <code>{children}</code>
      <button type="button" aria-label={`Copy: ${children}`} title="Copy" onClick={copy}>
        {copied ? "copied" : <Icon name="copy" size={13} />}
      </button>
    </span>
  );
}

export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} style={{ width: `${92 - ((i * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

/** Nothing is there yet: what it is for, and what to type next. */
export function Empty({
  title,
  children,
  command,
}: {
  title: string;
  children?: ReactNode;
  command?: string | undefined;
}) {
  return (
    <div className="empty">
      <h3>{title}</h3>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command>{command}</Command>}
    </div>
  );
}

/** Something is there, and the filters show none of it. */
export function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <div className="empty">
      <h3>No match for these filters</h3>
      <Button onClick={onClear}>Clear the filters</Button>
    </div>
  );
}

export function Field({
  label,
  children,
  note,
}: {
  label: string;
  children: ReactNode;
  note?: ReactNode;
}) {
  return (
    <label className="field">
      <span>{label}</span>
      {children}
      {note !== undefined && <small>{note}</small>}
    </label>
  );
}

export function Bar({ parts, label }: { parts: { tone: string; value: number }[]; label: string }) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  return (
    <div className="bar" role="img" aria-label={label} title={label}>
      {parts.map((part) => (
        <div
          key={part.tone}
          className={part.tone}
          style={{ width: `${total > 0 ? (100 * part.value) / total : 0}%` }}
        />
      ))}
    </div>
  );
}
