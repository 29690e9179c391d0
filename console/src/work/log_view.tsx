import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { Button } from "../ui/basics";
import { count, plural } from "../ui/format";

type Line = Record<string, unknown>;
const ROW = 20;
const LEVELS = ["", "warning", "error"];

/** Lines of a log: searched, jumped through, and saved as they are. */
export function LogView({ lines, name }: { lines: Line[]; name: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [wanted, setWanted] = useState("");
  const [level, setLevel] = useState("");
  const [at, setAt] = useState(0);
  const told = useMemo(() => lines.map(said), [lines]);
  const shown = useMemo(
    () =>
      told.map((line, number) => ({ ...line, number })).filter((line) => worth(line.level, level)),
    [told, level],
  );
  const hits = useMemo(() => {
    const search = wanted.toLowerCase();
    if (search === "") return [];
    return shown.flatMap((line, index) => (line.lower.includes(search) ? [index] : []));
  }, [shown, wanted]);
  const virtualizer = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 30,
  });
  const jump = (by: number) => {
    if (hits.length === 0) return;
    const next = (at + by + hits.length) % hits.length;
    setAt(next);
    virtualizer.scrollToIndex(hits[next]!, { align: "center" });
  };
  const hit = new Set(hits);
  return (
    <div className="stack">
      <div className="log-bar">
        <input
          type="search"
          aria-label="Search the log"
          placeholder="Search the log"
          value={wanted}
          onChange={(event) => {
            setWanted(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") jump(event.shiftKey ? -1 : 1);
          }}
        />
        {wanted !== "" && (
          <>
            <span className="faint">
              {hits.length === 0 ? "not in it" : `${count(at + 1)} of ${count(hits.length)}`}
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
        <span className="faint">{plural(shown.length, "line")}</span>
        <Button look="quiet" onClick={() => virtualizer.scrollToIndex(shown.length - 1)}>
          To the end
        </Button>
        <Button icon="down" look="quiet" onClick={() => save(lines, name)}>
          Download
        </Button>
      </div>
      <div
        ref={scroller}
        className="log"
        tabIndex={0}
        role="log"
        aria-label="Log"
        style={{ height: Math.min(440, Math.max(3, shown.length) * ROW + 4) }}
      >
        <div style={{ height: virtualizer.getTotalSize(), position: "relative" }}>
          {virtualizer.getVirtualItems().map((item) => {
            const line = shown[item.index]!;
            const mark = hits[at] === item.index ? "here" : hit.has(item.index) ? "hit" : "";
            return (
              <div
                key={item.key}
                className={`log-line ${mark}`}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <span className="number">{count(line.number + 1)}</span>
                <span className="faint">{line.time}</span>
                <span className={`level-${line.level}`}>{line.level.padEnd(7)}</span>
                <span>{line.event}</span>
                <span className="faint">{line.rest}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function said(line: Line) {
  const { event, level, timestamp, ...rest } = line;
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  const known = {
    time: text(timestamp).slice(11, 23),
    level: text(level),
    event: text(event),
    rest: Object.entries(rest)
      .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
      .join(" ")
      .replaceAll("\n", " ⏎ "),
  };
  return { ...known, lower: `${known.level} ${known.event} ${known.rest}`.toLowerCase() };
}

function worth(level: string, wanted: string): boolean {
  if (wanted === "") return true;
  const bad = level === "error" || level === "critical";
  return wanted === "error" ? bad : bad || level === "warning";
}

function save(lines: Line[], name: string): void {
  const text = lines.map((line) => JSON.stringify(line)).join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text, "\n"], { type: "application/x-ndjson" }));
  link.download = `${name}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
