import { useDeferredValue, useMemo, useRef, useState } from "react";
import { Button } from "../ui/basics";
import { useFixedRows } from "../ui/fixed_rows";
import { count, plural } from "../ui/format";
import { useLog } from "./use_log";

const ROW = 20;
const LEVELS = ["", "warning", "error"];

/** A log: searched, jumped through, and saved as it is. */
export function LogView({ file, name }: { file: Blob; name: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [typed, setTyped] = useState("");
  const [level, setLevel] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(typed);
  const log = useLog(file, level, wanted);
  const shown = log.ofLevel?.numbers.length ?? log.count;
  const rows = useFixedRows(scroller, shown, ROW, 20);
  const hits = log.hits.numbers;
  const hit = useMemo(() => new Set(hits), [hits]);
  const jump = (by: number) => {
    if (hits.length === 0) return;
    const next = (at + by + hits.length) % hits.length;
    setAt(next);
    rows.scrollTo(log.ofLevel?.numbers.indexOf(hits[next]!) ?? hits[next]!, "center");
  };
  return (
    <div className="stack">
      <div className="log-bar">
        <input
          type="search"
          aria-label="Search the log"
          placeholder="Search the log"
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") jump(event.shiftKey ? -1 : 1);
          }}
        />
        {wanted !== "" && (
          <>
            <span className="faint">
              {hits.length > 0
                ? `${count(at + 1)} of ${count(hits.length)}${log.hits.done ? "" : " so far"}`
                : log.hits.done
                  ? "not in it"
                  : "searching"}
            </span>
            <Button look="quiet" disabled={hits.length === 0} onClick={() => jump(-1)}>
              Previous
            </Button>
            <Button look="quiet" disabled={hits.length === 0} onClick={() => jump(1)}>
              Next
            </Button>
          </>
        )}
        <select aria-label="Level" value={level} onChange={(event) => setLevel(event.target.value)}>
          {LEVELS.map((each) => (
            <option key={each} value={each}>
              {each === "" ? "All levels" : `${each} and worse`}
            </option>
          ))}
        </select>
        <span className="grow" />
        <span className="faint">{plural(shown, "line")}</span>
        <Button look="quiet" onClick={() => rows.scrollTo(shown - 1)}>
          To the end
        </Button>
        <Button icon="down" look="quiet" onClick={() => save(file, name)}>
          Download
        </Button>
      </div>
      <div
        ref={scroller}
        className="log"
        tabIndex={0}
        role="log"
        aria-label="Log"
        style={{ height: Math.min(440, Math.max(3, shown) * ROW + 4) }}
      >
        <div style={{ height: rows.total, position: "relative" }}>
          {range(rows.first, rows.last).map((index) => {
            const number = log.ofLevel?.numbers[index] ?? index;
            const line = log.line(number);
            const mark = hits[at] === number ? "here" : hit.has(number) ? "hit" : "";
            return (
              <div
                key={number}
                className={`log-line ${mark}`}
                style={{ transform: `translateY(${rows.topOf(index)}px)` }}
              >
                <span className="number">{count(number + 1)}</span>
                {line && (
                  <>
                    <span className="faint">{line.time}</span>
                    <span className={`level-${line.level}`}>{line.level.padEnd(7)}</span>
                    <span>{line.event}</span>
                    <span className="faint">{line.rest}</span>
                  </>
                )}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, n) => first + n);
}

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `${name}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
