import { useEffect, useMemo, useState } from "react";
import { Chart, type Point } from "../charts/chart";
import { Empty, Skeleton } from "../ui/basics";
import { plural } from "../ui/format";
import { cellText, isNumeric } from "./exact";
import type { Result, Row } from "./result";

const MOST_BARS = 200;
const MOST_POINTS = 5_000;

/** A number of the answer against another column of it. */
export function ResultChart({ result }: { result: Result }) {
  const numbers = result.columns.flatMap((column, index) =>
    isNumeric(column.type) ? [index] : [],
  );
  const [y, setY] = useState(() => numbers.find((each) => each > 0) ?? numbers[0] ?? -1);
  const [x, setX] = useState(0);
  const ordered = isOrdered(result.columns[x]?.type ?? "");
  const [kind, setKind] = useState<"bars" | "line">(
    ordered && result.rowCount > 40 ? "line" : "bars",
  );
  const [rows, setRows] = useState<Row[] | null>(null);
  const most = kind === "bars" ? MOST_BARS : MOST_POINTS;
  useEffect(() => {
    let gone = false;
    void result.pages.head(Math.min(most, result.rowCount)).then((found) => {
      if (!gone) setRows(found);
    });
    return () => {
      gone = true;
    };
  }, [result, most]);
  const points = useMemo(() => pointsOf(rows ?? [], x, y, ordered), [rows, x, y, ordered]);
  if (y < 0) {
    return (
      <Empty title="Nothing to draw">
        A chart needs a column of numbers. Try count(*), or sum(…), grouped by another column.
      </Empty>
    );
  }
  return (
    <div className="chart-pane">
      <div className="row">
        <select
          aria-label="Up the side"
          value={y}
          onChange={(event) => setY(Number(event.target.value))}
        >
          {numbers.map((index) => (
            <option key={index} value={index}>
              {result.columns[index]?.name}
            </option>
          ))}
        </select>
        <span className="faint">by</span>
        <select aria-label="Along" value={x} onChange={(event) => setX(Number(event.target.value))}>
          {result.columns.map((column, index) => (
            <option key={index} value={index}>
              {column.name}
            </option>
          ))}
        </select>
        <span className="choice">
          {(["bars", "line"] as const).map((each) => (
            <button
              key={each}
              type="button"
              aria-pressed={kind === each}
              onClick={() => setKind(each)}
            >
              {each === "bars" ? "Bars" : "Line"}
            </button>
          ))}
        </span>
        {result.rowCount > most && (
          <span className="faint">the first {plural(most, "row")} of the answer</span>
        )}
      </div>
      {rows === null ? (
        <Skeleton lines={6} />
      ) : (
        <Chart
          points={points}
          kind={kind}
          label={`${result.columns[y]?.name ?? ""} by ${result.columns[x]?.name ?? ""}`}
        />
      )}
    </div>
  );
}

function isOrdered(type: string): boolean {
  return isNumeric(type) || type.startsWith("TIMESTAMP") || type === "DATE";
}

function pointsOf(rows: Row[], x: number, y: number, ordered: boolean): Point[] {
  const points = rows.flatMap((row) => {
    const value = Number(row[y]);
    if (row[y] === null || !Number.isFinite(value)) return [];
    const along = row[x];
    const text = cellText(along);
    const label = /^0x[0-9a-f]{12,}$/i.test(text) ? `${text.slice(0, 6)}…${text.slice(-4)}` : text;
    return [{ label, value, order: typeof along === "number" ? along : text }];
  });
  // Whatever the statement's order was, numbers and times run from left to right.
  if (ordered) {
    points.sort((a, b) =>
      typeof a.order === "number" && typeof b.order === "number"
        ? a.order - b.order
        : String(a.order).localeCompare(String(b.order)),
    );
  }
  return points;
}
