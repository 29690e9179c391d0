import { memo, useMemo, useRef, useSyncExternalStore } from "react";
import { useFixedRows } from "../ui/fixed_rows";
import { count } from "../ui/format";
import { ProblemBox } from "../ui/problem";
import { ADDRESS, cellText, isNumeric, shortHex, WORD } from "./exact";
import type { Result, Row } from "./result";

const ROW = 26;
const NARROWEST = 70;
const WIDEST = 420;
const CHAR = 7.3;

export interface Cell {
  column: string;
  type: string;
  value: unknown;
}

/** The rows of an answer; only those that are seen are drawn, and fetched. */
export function Grid({ result, onCell }: { result: Result; onCell: (cell: Cell) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const { pages, columns } = result;
  useSyncExternalStore(pages.subscribe, () => pages.version);
  const widths = useMemo(() => measure(result), [result]);
  const rows = useFixedRows(scroller, result.rowCount, ROW, 12);
  const total = widths.reduce((sum, width) => sum + width, 0) + 56;
  return (
    <>
      {pages.problem !== null && <ProblemBox error={pages.problem} />}
      <div
        ref={scroller}
        className="result-grid"
        role="grid"
        aria-label="Result"
        aria-rowcount={result.rowCount + 1}
        tabIndex={0}
      >
        <div className="result-row result-head" role="row" style={{ width: total }}>
          <div role="columnheader" className="result-number" style={{ width: 56 }}>
            <span className="hidden">Row</span>
          </div>
          {columns.map((column, index) => (
            <div
              key={index}
              role="columnheader"
              className={isNumeric(column.type) ? "right" : ""}
              style={{ width: widths[index] }}
              title={`${column.name}: ${column.type}`}
            >
              {column.name}
            </div>
          ))}
        </div>
        <div
          role="rowgroup"
          style={{ height: rows.total, position: "relative", width: total }}
        >
          {Array.from({ length: Math.max(0, rows.last - rows.first + 1) }, (_, n) => (
            <div
              key={rows.first + n}
              role="row"
              aria-rowindex={rows.first + n + 2}
              className="result-row"
              style={{
                transform: `translateY(${rows.topOf(rows.first + n)}px)`,
                position: "absolute",
                width: total,
              }}
            >
              <div role="rowheader" className="result-number" style={{ width: 56 }}>
                {count(rows.first + n + 1)}
              </div>
              <Cells
                row={pages.row(rows.first + n)}
                result={result}
                widths={widths}
                onCell={onCell}
              />
            </div>
          ))}
        </div>
      </div>
    </>
  );
}

const Cells = memo(function Cells({
  row,
  result,
  widths,
  onCell,
}: {
  row: Row | undefined;
  result: Result;
  widths: number[];
  onCell: (cell: Cell) => void;
}) {
  return result.columns.map((column, index) => {
    const value = row?.[index];
    const text = row === undefined ? "…" : cellText(value);
    const hex = typeof value === "string" && (ADDRESS.test(value) || WORD.test(value));
    return (
      <div
        key={index}
        role="gridcell"
        className={`${isNumeric(column.type) ? "right" : ""} ${value === null ? "null" : ""}`}
        style={{ width: widths[index] }}
        title={text.length > 40 ? text.slice(0, 2000) : undefined}
        onDoubleClick={() => onCell({ column: column.name, type: column.type, value })}
      >
        {hex ? (
          <button
            type="button"
            className="link mono"
            onClick={() => onCell({ column: column.name, type: column.type, value })}
          >
            {shortHex(text)}
          </button>
        ) : (
          text.slice(0, 400)
        )}
      </div>
    );
  });
});

function measure({ columns, pages }: Result): number[] {
  return columns.map((column, index) => {
    let longest = column.name.length * 1.12 + 1;
    for (let at = 0; at < 60; at += 1) {
      const row = pages.row(at);
      if (row === undefined) break;
      const text = cellText(row[index]);
      longest = Math.max(longest, WORD.test(text) ? shortHex(text).length : text.length);
    }
    return Math.min(WIDEST, Math.max(NARROWEST, longest * CHAR + 22));
  });
}
