import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import * as ask from "../api/queries";
import { useTheme } from "../shell/theme";
import { Button, Empty } from "../ui/basics";
import { ago, bytes, clock, count, plural, sinceIso } from "../ui/format";
import { useNow } from "../ui/now";
import { Loaded } from "../ui/problem";
import {
  blockAt,
  cellAt,
  cells,
  extent,
  pixels,
  valueOf,
  whole,
  within,
  xOf,
  borders,
  type Cell,
  type Measure,
  type Open,
  type Part,
  type Range,
} from "./band";
import "./band.css";

export interface Table {
  first: number;
  last: number;
  rows: number;
  at: string;
}

const HEIGHT = 46;
const MEASURES: Measure[] = ["state", "rows", "bytes", "age"];

/** The partitions of a dataset as a band; a part of it can be selected. */
export function PartitionMap({
  dataset,
  at,
  table,
  none,
  actions,
}: {
  dataset: string;
  at: string | null;
  /** Up to which block a table of Postgres goes on behind the files, and since when. */
  table: Table | null;
  /** What is said when there is no partition. */
  none: string;
  actions: (range: Range, cells: Cell[]) => ReactNode;
}) {
  const parts = useQuery(ask.allPartitions(dataset, at));
  const open = useQuery(ask.invalidations(dataset, true));
  return (
    <Loaded query={parts} lines={3}>
      {(data) =>
        withTable(data, table).length === 0 ? (
          <Empty title="No partitions">{none}</Empty>
        ) : (
          <Band
            parts={withTable(data, table)}
            open={(open.data?.invalidations ?? []).map((each) => ({
              start: each.start,
              end: each.end,
              key: each.partition_key,
            }))}
            actions={actions}
          />
        )
      }
    </Loaded>
  );
}

/** Rows of a table are not partitioned: behind the files they are one part. */
function withTable(parts: Part[], table: Table | null): Part[] {
  if (table === null) return parts;
  const files = parts.reduce((last, part) => Math.max(last, part.end ?? -1), table.first - 1);
  if (table.last <= files) return parts;
  return [
    ...parts,
    {
      partition_key: "in Postgres",
      start: files + 1,
      end: table.last,
      rows: Math.max(0, table.rows - parts.reduce((sum, part) => sum + part.rows, 0)),
      bytes: 0,
      files: 0,
      committed_at: table.at,
      task_id: null,
      attempt: null,
    },
  ];
}

function Band({
  parts,
  open,
  actions,
}: {
  parts: Part[];
  open: Open[];
  actions: (range: Range, cells: Cell[]) => ReactNode;
}) {
  const navigate = useNavigate();
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useCanvasWidth(canvas);
  const theme = useTheme();
  const now = useNow();
  // Ages by the ten seconds: nobody sees less, and the band is not drawn anew each second.
  const tick = Math.floor(now / 10_000) * 10_000;
  const openKey = JSON.stringify(open);
  const all = useMemo(
    () => cells(parts, JSON.parse(openKey) as Open[], tick),
    [parts, openKey, tick],
  );
  const [measure, setMeasure] = useState<Measure>("state");
  const [zoom, setZoom] = useState<Range | null>(null);
  const [drag, setDrag] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [chosen, setChosen] = useState<Range | null>(null);
  const view = zoom ?? extent(all);
  const ranged = parts[0]?.start !== null;

  useEffect(() => {
    if (canvas.current && width > 0) {
      draw(canvas.current, pixels(all, view, width, valueOf(measure, tick)), measure, {
        chosen,
        over,
        view,
        borders: borders(all, view, width),
      });
    }
  }, [all, view.start, view.end, width, measure, tick, chosen, over, theme]);

  const at = (event: { clientX: number }) => {
    const box = canvas.current!.getBoundingClientRect();
    return blockAt(event.clientX - box.left, box.width, view);
  };
  const openTask = (block: number) => {
    const task = cellAt(all, block)?.part.task_id;
    if (task) void navigate({ to: "/tasks/$task/", params: { task } });
  };
  const step = (by: number, extend: boolean) => {
    const index =
      over === null ? -1 : all.findIndex((cell) => cell.from <= over && over <= cell.to);
    const next = all[Math.min(all.length - 1, Math.max(0, index + by))];
    if (!next) return;
    setOver(next.from);
    if (extend) {
      const begin = chosen ?? { start: next.from, end: next.to };
      setChosen({ start: Math.min(begin.start, next.from), end: Math.max(begin.end, next.to) });
    }
  };
  const cell = over === null ? null : cellAt(all, over);
  const inside = chosen ? within(all, chosen) : [];
  return (
    <div className="band">
      <div className="band-top">
        <span className="choice" role="group" aria-label="Coloured by">
          {MEASURES.map((each) => (
            <button
              key={each}
              type="button"
              aria-pressed={measure === each}
              onClick={() => setMeasure(each)}
            >
              {each}
            </button>
          ))}
        </span>
        <Legend measure={measure} all={all} now={tick} />
        <span className="grow" />
        {zoom && <Button onClick={() => setZoom(null)}>Whole range</Button>}
      </div>
      <div>
        <div className="band-canvas">
          <canvas
            ref={canvas}
            height={HEIGHT}
            tabIndex={0}
            role="img"
            aria-label={`${plural(parts.length, "partition")} from ${count(view.start)} to ${count(view.end)}. Arrow keys move, with Shift they select, Enter opens the task.`}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              setDrag(at(event));
              setChosen(null);
            }}
            onPointerMove={(event) => {
              const block = at(event);
              setOver(block);
              if (drag !== null && Math.abs(xOf(block, width, view) - xOf(drag, width, view)) > 3) {
                setChosen(whole(all, drag, block));
              }
            }}
            onPointerUp={(event) => {
              if (drag !== null && chosen === null) openTask(at(event));
              setDrag(null);
            }}
            onPointerLeave={() => setOver(null)}
            onKeyDown={(event) => {
              if (event.key === "ArrowRight") step(1, event.shiftKey);
              else if (event.key === "ArrowLeft") step(-1, event.shiftKey);
              else if (event.key === "Enter" && over !== null) openTask(over);
              else if (event.key === "Escape") setChosen(null);
              else return;
              event.preventDefault();
            }}
          />
        </div>
        {ranged && <Axis view={view} />}
      </div>
      <div className="band-said" aria-live="polite">
        {chosen ? (
          <Selected
            chosen={chosen}
            inside={inside}
            onChange={setChosen}
            onClear={() => setChosen(null)}
            onZoom={() => {
              setZoom(chosen);
              setChosen(null);
            }}
          >
            {actions(chosen, inside)}
          </Selected>
        ) : cell ? (
          <Told cell={cell} now={now} />
        ) : over !== null ? (
          <span>block {count(over)}: no partition has it</span>
        ) : (
          <span className="faint">
            Point to see when a partition was made and by which task; click to go there; drag to
            select a range.{" "}
            {ranged && (
              <button type="button" className="link" onClick={() => setChosen(view)}>
                Select by numbers
              </button>
            )}
          </span>
        )}
      </div>
    </div>
  );
}

function Told({ cell: { part }, now }: { cell: Cell; now: number }) {
  return (
    <>
      <strong className="mono">{part.partition_key}</strong>
      <span>{plural(part.rows, "row")}</span>
      <span>
        {bytes(part.bytes)} in {plural(part.files, "file")}
      </span>
      <span>
        {clock(part.committed_at)}, {ago(sinceIso(part.committed_at, now))}
      </span>
      {part.task_id && (
        <span>
          task{" "}
          <Link to="/tasks/$task/" params={{ task: part.task_id }} className="mono">
            {part.task_id.slice(-8)}
          </Link>
          , attempt {part.attempt}
        </span>
      )}
    </>
  );
}

function Selected({
  chosen,
  inside,
  onChange,
  onClear,
  onZoom,
  children,
}: {
  chosen: Range;
  inside: Cell[];
  onChange: (range: Range) => void;
  onClear: () => void;
  onZoom: () => void;
  children: ReactNode;
}) {
  const rows = inside.reduce((sum, cell) => sum + cell.part.rows, 0);
  return (
    <span className="row">
      <input
        type="number"
        className="block"
        aria-label="First block"
        value={chosen.start}
        onChange={(event) => onChange({ ...chosen, start: Number(event.target.value) })}
      />
      to
      <input
        type="number"
        className="block"
        aria-label="Last block"
        value={chosen.end}
        onChange={(event) => onChange({ ...chosen, end: Number(event.target.value) })}
      />
      <span>
        {plural(inside.length, "partition")}, {plural(rows, "row")}
      </span>
      {children}
      <Button look="quiet" onClick={onZoom}>
        Zoom in
      </Button>
      <Button look="quiet" onClick={onClear}>
        Clear
      </Button>
    </span>
  );
}

function Legend({ measure, all, now }: { measure: Measure; all: Cell[]; now: number }) {
  if (measure === "state") {
    return (
      <div className="legend">
        <span className="good">
          <i /> committed
        </span>
        <span className="busy">
          <i /> just now
        </span>
        <span className="warn">
          <i /> being done again
        </span>
        <span>
          <i className="gap" /> missing
        </span>
      </div>
    );
  }
  const of = valueOf(measure, now);
  const most = all.reduce((high, cell) => Math.max(high, of(cell.part)), 0);
  const said =
    measure === "bytes" ? bytes(most) : measure === "age" ? ago(most) : plural(most, "row");
  return (
    <div className="legend">
      <span>
        light: {measure === "age" ? "just now" : "0"}, dark: {said}
      </span>
    </div>
  );
}

function Axis({ view }: { view: Range }) {
  const marks = [0, 0.25, 0.5, 0.75, 1];
  return (
    <div className="band-axis" aria-hidden="true">
      {marks.map((mark) => (
        <span
          key={mark}
          style={{ left: `${mark * 100}%` }}
          className={mark % 0.5 ? "only-wide" : ""}
        >
          {count(Math.round(view.start + mark * (view.end - view.start)))}
        </span>
      ))}
    </div>
  );
}

function draw(
  canvas: HTMLCanvasElement,
  columns: ReturnType<typeof pixels>,
  measure: Measure,
  {
    chosen,
    over,
    view,
    borders,
  }: { chosen: Range | null; over: number | null; view: Range; borders: number[] },
): void {
  const scale = window.devicePixelRatio || 1;
  const width = columns.length;
  canvas.width = width * scale;
  canvas.height = HEIGHT * scale;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const of = { held: colour("--good"), redone: colour("--warn"), new: colour("--busy") };
  const accent = colour("--accent");
  const most = Math.max(1e-9, ...columns.map((column) => column.value));
  columns.forEach((column, x) => {
    if (column.state === null) return;
    pen.fillStyle = measure === "state" ? of[column.state] : accent;
    pen.globalAlpha =
      measure === "state" ? 0.35 + 0.6 * column.held : 0.12 + 0.88 * (column.value / most);
    // What is done again is told by its height too, not by its colour alone.
    const top = measure === "state" && column.state === "redone" ? HEIGHT * 0.4 : 0;
    pen.fillRect(x, top, 1, HEIGHT - top);
  });
  pen.globalAlpha = 1;
  pen.fillStyle = colour("--surface");
  for (const x of borders) pen.fillRect(x, 0, 1, HEIGHT);
  if (chosen) {
    const from = xOf(chosen.start, width, view);
    const to = xOf(chosen.end + 1, width, view);
    pen.fillStyle = colour("--text");
    pen.globalAlpha = 0.16;
    pen.fillRect(from, 0, to - from, HEIGHT);
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("--text");
    pen.lineWidth = 1.5;
    pen.strokeRect(from + 0.75, 0.75, Math.max(1, to - from - 1.5), HEIGHT - 1.5);
  }
  if (over !== null) {
    pen.fillStyle = colour("--text");
    pen.fillRect(Math.round(xOf(over, width, view)), 0, 1, HEIGHT);
  }
}

function useCanvasWidth(canvas: React.RefObject<HTMLCanvasElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.max(1, Math.floor(entry.contentRect.width)));
    });
    if (canvas.current) observer.observe(canvas.current);
    return () => observer.disconnect();
  }, [canvas]);
  return width;
}
