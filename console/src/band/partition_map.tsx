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
  amount,
  blockAt,
  borders,
  extent,
  indexAt,
  largest,
  partAt,
  partsOf,
  pixels,
  valueOf,
  whole,
  xOf,
  zoomed,
  type Measure,
  type Open,
  type Part,
  type Parts,
  type Range,
} from "./band";
import "./band.css";

export interface Table {
  first: number;
  last: number;
  rows: number;
  at: string;
}

export interface Chosen {
  range: Range;
  partitions: number;
  rows: number;
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
  actions: (chosen: Chosen) => ReactNode;
}) {
  const columns = useQuery(ask.partitionColumns(dataset, at));
  const open = useQuery(ask.invalidations(dataset, true));
  const tableKey = JSON.stringify(table);
  const parts = useMemo(
    () => columns.data && partsOf(withTable(columns.data, JSON.parse(tableKey) as Table | null)),
    [columns.data, tableKey],
  );
  return (
    <Loaded query={columns} lines={3}>
      {() =>
        !parts || parts.count === 0 ? (
          <Empty title="No partitions">{none}</Empty>
        ) : (
          <Band
            parts={parts}
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
function withTable(pages: Parts["columns"][], table: Table | null): Parts["columns"][] {
  if (table === null) return pages;
  const files = pages.at(-1)?.end.at(-1) ?? table.first - 1;
  if (table.last <= files) return pages;
  const rows = pages.reduce((sum, page) => page.rows.reduce((a, b) => a + b, sum), 0);
  return [
    ...pages,
    {
      key: ["in Postgres"],
      start: [files + 1],
      end: [table.last],
      rows: [Math.max(0, table.rows - rows)],
      bytes: [0],
      files: [0],
      committed_ms: [Date.parse(table.at)],
      task_id: [null],
      attempt: [null],
    },
  ];
}

function Band({
  parts,
  open,
  actions,
}: {
  parts: Parts;
  open: Open[];
  actions: (chosen: Chosen) => ReactNode;
}) {
  const navigate = useNavigate();
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useCanvasWidth(canvas);
  const theme = useTheme();
  const now = useNow();
  // Ages by the ten seconds: nobody sees less, and the band is not drawn anew each second.
  const tick = Math.floor(now / 10_000) * 10_000;
  const openKey = JSON.stringify(open);
  const [measure, setMeasure] = useState<Measure>("state");
  const [zoom, setZoom] = useState<Range | null>(null);
  const [drag, setDrag] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [chosen, setChosen] = useState<Range | null>(null);
  const all = useMemo(() => extent(parts), [parts]);
  const view = zoom ?? all;

  useEffect(() => {
    if (!canvas.current || width === 0) return;
    const opened = JSON.parse(openKey) as Open[];
    const shown = pixels(parts, opened, tick, view, width, valueOf(parts, measure, tick));
    draw(canvas.current, shown, measure, borders(parts, view, width));
  }, [parts, openKey, view.start, view.end, width, measure, tick, theme]);

  const at = (event: { clientX: number }) => {
    const box = canvas.current!.getBoundingClientRect();
    return blockAt(event.clientX - box.left, box.width, view);
  };
  const zoomAt = (block: number, factor: number) => setZoom(zoomed(view, all, block, factor));
  useZoomWheel(canvas, (event) => zoomAt(at(event), event.deltaY < 0 ? 0.7 : 1 / 0.7));
  const openTask = (block: number) => {
    const index = indexAt(parts, block);
    const task = index < 0 ? null : partAt(parts, index).task;
    if (task) void navigate({ to: "/tasks/$task/", params: { task } });
  };
  const step = (by: number, extend: boolean) => {
    const index = over === null ? -1 : indexAt(parts, over);
    const next = Math.min(parts.count - 1, Math.max(0, index + by));
    const [start, end] = [parts.from[next]!, parts.to[next]!];
    setOver(start);
    if (!extend) return;
    const begin = chosen ?? { start, end };
    setChosen({ start: Math.min(begin.start, start), end: Math.max(begin.end, end) });
  };
  const keys: Record<string, (event: { shiftKey: boolean }) => void> = {
    ArrowRight: (event) => step(1, event.shiftKey),
    ArrowLeft: (event) => step(-1, event.shiftKey),
    Enter: () => over !== null && openTask(over),
    Escape: () => setChosen(null),
    "+": () => zoomAt(over ?? view.start, 0.5),
    "-": () => zoomAt(over ?? view.start, 2),
  };
  const index = over === null ? -1 : indexAt(parts, over);
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
        <Legend measure={measure} parts={parts} now={tick} />
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
            aria-label={`${plural(parts.count, "partition")} from ${count(view.start)} to ${count(view.end)}. Arrow keys move, with Shift they select, + and - zoom, Enter opens the task.`}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              setDrag(at(event));
              setChosen(null);
            }}
            onPointerMove={(event) => {
              const block = at(event);
              setOver(block);
              if (drag !== null && Math.abs(xOf(block, width, view) - xOf(drag, width, view)) > 3) {
                setChosen(whole(parts, drag, block));
              }
            }}
            onPointerUp={(event) => {
              if (drag !== null && chosen === null) openTask(at(event));
              setDrag(null);
            }}
            onPointerLeave={() => setOver(null)}
            onKeyDown={(event) => {
              const act = keys[event.key];
              if (!act) return;
              act(event);
              event.preventDefault();
            }}
          />
          <Marks over={over} chosen={chosen} view={view} width={width} />
        </div>
        {parts.ranged && <Axis view={view} />}
      </div>
      <div className="band-said" aria-live="polite">
        {chosen ? (
          <Selected
            chosen={{ range: chosen, ...amount(parts, chosen) }}
            onChange={setChosen}
            onClear={() => setChosen(null)}
            onZoom={() => {
              setZoom(chosen);
              setChosen(null);
            }}
          >
            {actions({ range: chosen, ...amount(parts, chosen) })}
          </Selected>
        ) : index >= 0 ? (
          <Told part={partAt(parts, index)} now={now} />
        ) : over !== null ? (
          <span>block {count(over)}: no partition has it</span>
        ) : (
          <span className="faint">
            Point to see when a partition was made and by which task; click to go there; drag to
            select a range.{" "}
            {parts.ranged && (
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

/** Where one points and what is selected: over the band, which is not drawn anew for them. */
function Marks({
  over,
  chosen,
  view,
  width,
}: {
  over: number | null;
  chosen: Range | null;
  view: Range;
  width: number;
}) {
  const left = chosen ? xOf(chosen.start, width, view) : 0;
  const right = chosen ? xOf(chosen.end + 1, width, view) : 0;
  return (
    <>
      {chosen && <i className="band-chosen" style={{ left, width: Math.max(2, right - left) }} />}
      {over !== null && <i className="band-over" style={{ left: xOf(over, width, view) }} />}
    </>
  );
}

function Told({ part, now }: { part: Part; now: number }) {
  const committed = new Date(part.committed).toISOString();
  return (
    <>
      <strong className="mono">{part.key}</strong>
      <span>{plural(part.rows, "row")}</span>
      <span>
        {bytes(part.bytes)} in {plural(part.files, "file")}
      </span>
      <span>
        {clock(committed)}, {ago(sinceIso(committed, now))}
      </span>
      {part.task && (
        <span>
          task{" "}
          <Link to="/tasks/$task/" params={{ task: part.task }} className="mono">
            {part.task.slice(-8)}
          </Link>
          , attempt {part.attempt}
        </span>
      )}
    </>
  );
}

function Selected({
  chosen: { range, partitions, rows },
  onChange,
  onClear,
  onZoom,
  children,
}: {
  chosen: Chosen;
  onChange: (range: Range) => void;
  onClear: () => void;
  onZoom: () => void;
  children: ReactNode;
}) {
  return (
    <span className="row">
      <input
        type="number"
        className="block"
        aria-label="First block"
        value={range.start}
        onChange={(event) => onChange({ ...range, start: Number(event.target.value) })}
      />
      to
      <input
        type="number"
        className="block"
        aria-label="Last block"
        value={range.end}
        onChange={(event) => onChange({ ...range, end: Number(event.target.value) })}
      />
      <span>
        {plural(partitions, "partition")}, {plural(rows, "row")}
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

function Legend({ measure, parts, now }: { measure: Measure; parts: Parts; now: number }) {
  const most = useMemo(
    () => largest(parts, valueOf(parts, measure, now)),
    [parts, measure, now],
  );
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
  borders: number[],
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
}

/** Ctrl and the wheel, or two fingers that part: the page scrolls by the wheel alone. */
function useZoomWheel(
  canvas: React.RefObject<HTMLCanvasElement | null>,
  onZoom: (event: WheelEvent) => void,
): void {
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  useEffect(() => {
    const place = canvas.current;
    const turned = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom.current(event);
    };
    // React's own listener is passive: it could not keep the page from being zoomed.
    place?.addEventListener("wheel", turned, { passive: false });
    return () => place?.removeEventListener("wheel", turned);
  }, [canvas]);
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
