// The Markdown of our own documents, as React elements: nothing of it is ever HTML.

import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";

export function Markdown({ text }: { text: string }) {
  return <article className="doc">{blocks(text)}</article>;
}

function blocks(text: string): ReactNode[] {
  const lines = text.replace(/<!--[\s\S]*?-->/g, "").split("\n");
  const made: ReactNode[] = [];
  let at = 0;
  const until = (stops: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && !stops(lines[at]!)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const key = at;
    const head = /^(#{1,4}) (.*)/.exec(line);
    if (line.trim() === "") at += 1;
    else if (head) {
      at += 1;
      made.push(heading(head[1]!.length, head[2]!, key));
    } else if (line.startsWith("```")) {
      at += 1;
      const code = until((each) => each.startsWith("```"));
      at += 1;
      made.push(
        <pre key={key} tabIndex={0}>
          <code>{code.join("\n")}</code>
        </pre>,
      );
    } else if (line.startsWith("|"))
      made.push(
        table(
          until((each) => !each.startsWith("|")),
          key,
        ),
      );
    else if (isItem(line)) made.push(list(until(endsList), key));
    else {
      const said = until((each) => each.trim() === "" || /^(#|```|\|)/.test(each) || isItem(each));
      made.push(<p key={key}>{inline(said.join(" "))}</p>);
    }
  }
  return made;
}

function heading(level: number, text: string, key: number): ReactNode {
  const id = text
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
  const inside = inline(text);
  // The page has its own first heading.
  if (level === 1)
    return (
      <h2 key={key} id={id}>
        {inside}
      </h2>
    );
  if (level === 2)
    return (
      <h3 key={key} id={id}>
        {inside}
      </h3>
    );
  return (
    <h4 key={key} id={id}>
      {inside}
    </h4>
  );
}

function isItem(line: string): boolean {
  return /^\s*([-*]|\d+\.) /.test(line);
}

function endsList(line: string): boolean {
  return line.trim() === "" || (!isItem(line) && !line.startsWith("  "));
}

function list(lines: string[], key: number): ReactNode {
  const items: string[] = [];
  for (const line of lines) {
    if (isItem(line)) items.push(line.replace(/^\s*([-*]|\d+\.) /, ""));
    else items.push(`${items.pop() ?? ""} ${line.trim()}`);
  }
  return (
    <ul key={key}>
      {items.map((item, index) => (
        <li key={index}>{inline(item)}</li>
      ))}
    </ul>
  );
}

function table(lines: string[], key: number): ReactNode {
  const cells = (line: string) =>
    line
      .replace(/^\||\|\s*$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll("\\|", "|"));
  const [head, , ...rows] = lines;
  return (
    <div key={key} className="table-scroll" tabIndex={0} role="region" aria-label="Table">
      <table className="table">
        <thead>
          <tr>
            {cells(head ?? "").map((cell, index) => (
              <th key={index}>{inline(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {cells(row).map((cell, column) => (
                <td key={column}>{inline(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const INLINE = /(`[^`]+`)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;

function inline(text: string): ReactNode {
  const made: ReactNode[] = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    made.push(text.slice(from, found.index));
    const [all, code, strong, soft, label, to] = found;
    made.push(
      <Fragment key={found.index}>
        {code ? (
          <code>{code.slice(1, -1)}</code>
        ) : strong ? (
          <strong>{strong}</strong>
        ) : soft ? (
          <em>{soft}</em>
        ) : (
          link(label ?? "", to ?? "")
        )}
      </Fragment>,
    );
    from = found.index + all.length;
  }
  made.push(text.slice(from));
  return made;
}

function link(label: string, to: string): ReactNode {
  const page = /^([\w-]+)\.md(?:#(.*))?$/.exec(to);
  if (page) {
    return (
      <Link to="/docs/$page/" params={{ page: page[1]! }} hash={page[2] ?? ""}>
        {inline(label)}
      </Link>
    );
  }
  if (to.startsWith("#")) return <a href={to}>{inline(label)}</a>;
  if (/^https?:\/\//.test(to)) {
    return (
      <a href={to} rel="noreferrer">
        {label}
      </a>
    );
  }
  return inline(label);
}
