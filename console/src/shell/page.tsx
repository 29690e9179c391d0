import { Link } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";
import { Icon } from "../ui/icons";

/** The head of every page: what it is, what can be done, and where it is described. */
export function Page({
  title,
  under,
  doc,
  actions,
  children,
  full,
}: {
  title: ReactNode;
  /** What stands before the title, such as a link to the list. */
  under?: ReactNode;
  doc: string;
  actions?: ReactNode;
  children: ReactNode;
  full?: boolean;
}) {
  const named = typeof title === "string" ? title : null;
  useEffect(() => {
    if (named !== null) document.title = `${named} · Trace`;
  }, [named]);
  const [page, part] = doc.split("#");
  return (
    <div className={full ? "page-inside full" : "page-inside"}>
      <header className="page-head">
        <div className="page-title">
          {under !== undefined && <span className="crumb">{under}</span>}
          <h1>{title}</h1>
          <Link
            to="/docs/$page/"
            params={{ page: page ?? "" }}
            {...(part === undefined ? {} : { hash: part })}
            className="doc-link"
            title="Documentation of this page"
          >
            <Icon name="book" size={14} /> <span className="only-wide">Docs</span>
            <span className="hidden">Documentation of this page</span>
          </Link>
        </div>
        {actions !== undefined && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
