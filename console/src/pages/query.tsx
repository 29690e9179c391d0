import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { asProblem, call, isAbort, post, remove, send, type Problem } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import type { EditorHandle, Names } from "../editor/sql_editor";
import { cellText } from "../query/exact";
import { Grid, type Cell } from "../query/grid";
import { draft, keepDraft, past, remember, type Past } from "../query/history";
import { readyQueries } from "../query/ready";
import { run, type Result } from "../query/result";
import { ResultChart } from "../query/result_chart";
import { Page } from "../shell/page";
import { Button, Empty, Skeleton } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { clock, count, duration, plural, shortId } from "../ui/format";
import { Icon } from "../ui/icons";
import { Loaded, ProblemBox } from "../ui/problem";
import { complain, say } from "../ui/toast";
import "./query.css";

const SqlEditor = lazy(() => import("../editor/sql_editor"));
const LIMITS = [1_000, 10_000, 100_000, 1_000_000];

type Shown = "rows" | "chart";

interface Going {
  id: string;
  sql: string;
  began: number;
  stop: AbortController;
}

export function QueryPage() {
  const { sql: given } = useSearch({ from: "/query" });
  const client = useQueryClient();
  const published = useQuery(ask.published());
  const editor = useRef<EditorHandle>(null);
  const [start] = useState(() => given ?? draft() ?? "");
  const [typed, setTyped] = useState(start);
  const [limit, setLimit] = useState(LIMITS[0]!);
  const [at, setAt] = useState("");
  const [going, setGoing] = useState<Going | null>(null);
  const [result, setResult] = useState<Result | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [shown, setShown] = useState<Shown>("rows");
  const [cell, setCell] = useState<Cell | null>(null);
  const [history, setHistory] = useState<Past[] | null>(null);
  const running = useRef<Going | null>(null);

  // What is under way ends with the page: nobody would read its answer.
  useEffect(() => () => running.current?.stop.abort(), []);

  const go = async (all?: string) => {
    if (running.current) return;
    const chosen = all === undefined ? editor.current?.chosen() : { sql: all, line: 1, column: 1 };
    if (!chosen || chosen.sql.trim() === "") return;
    const now = {
      id: crypto.randomUUID(),
      sql: chosen.sql,
      began: performance.now(),
      stop: new AbortController(),
    };
    running.current = now;
    setGoing(now);
    setProblem(null);
    editor.current?.mark(null);
    const entry = { id: now.id, sql: chosen.sql, at: new Date().toISOString() };
    try {
      const found = await run(chosen.sql, limit, at || null, now.id, now.stop.signal);
      setResult(found);
      remember({ ...entry, rows: found.rowCount, ms: found.elapsedMs, error: null });
    } catch (error) {
      if (isAbort(error)) return;
      const said = asProblem(error);
      setProblem(said);
      setResult(null);
      const { line, column } = said.facts;
      if (typeof line === "number") {
        const first = line === 1;
        editor.current?.mark({
          text: said.hint === null ? said.message : `${said.message}\n${said.hint}`,
          line: line + chosen.line - 1,
          column: (typeof column === "number" ? column : 1) + (first ? chosen.column - 1 : 0),
        });
      }
      remember({ ...entry, rows: null, ms: null, error: said.code });
    } finally {
      running.current = null;
      setGoing(null);
      void client.invalidateQueries({ queryKey: ["own-queries"] });
    }
  };

  const cancel = () => {
    if (!going) return;
    void remove("/v1/query/{query_id}", { path: { query_id: going.id } }).catch(complain);
  };

  const names: Names[] = (published.data?.datasets ?? []).map((each) => ({
    name: each.name,
    columns: each.columns ?? [],
  }));
  const use = (sql: string) => {
    editor.current?.replace(sql);
    void go(sql);
  };
  return (
    <Page
      full
      title="Query"
      doc="query"
      actions={<Button onClick={() => setHistory(past())}>History</Button>}
    >
      <div className="query">
        <aside className="card names" aria-label="Datasets and columns">
          <Loaded query={published}>
            {(data) => (
              <NameTree
                datasets={data.datasets}
                onInsert={(text) => editor.current?.insert(text)}
              />
            )}
          </Loaded>
        </aside>
        <div className="work">
          <div className="editor-box">
            <Suspense fallback={<div className="editor-wait">{start}</div>}>
              <SqlEditor
                ref={editor}
                value={start}
                names={names}
                onRun={() => void go()}
                onChange={(sql) => {
                  setTyped(sql);
                  keepDraft(sql);
                }}
              />
            </Suspense>
          </div>
          <RunBar
            going={going}
            canRun={typed.trim() !== ""}
            limit={limit}
            at={at}
            onLimit={setLimit}
            onAt={setAt}
            onRun={() => void go()}
            onCancel={cancel}
          />
          <div className="answer">
            {going ? (
              <Waiting going={going} />
            ) : problem ? (
              <div>
                <ProblemBox error={problem} />
              </div>
            ) : result ? (
              <Answer
                result={result}
                shown={shown}
                onShow={setShown}
                onCell={setCell}
                at={at || null}
              />
            ) : (
              <>
                <div className="answer-bar">Nothing was asked yet. These run on what is here:</div>
                <div className="answer-body">
                  <Loaded query={published}>
                    {(data) =>
                      data.datasets.length === 0 ? (
                        <Empty
                          title="Nothing is published yet"
                          command="trace deploy src/trace_platform/examples/chain.yaml"
                        >
                          Datasets that a DAG publishes can be queried by their names.
                        </Empty>
                      ) : (
                        <div className="ready">
                          {readyQueries(data.datasets).map((each) => (
                            <button key={each.title} type="button" onClick={() => use(each.sql)}>
                              <strong>{each.title}</strong>
                              <pre>{each.sql}</pre>
                            </button>
                          ))}
                        </div>
                      )
                    }
                  </Loaded>
                </div>
              </>
            )}
          </div>
        </div>
      </div>
      {cell && (
        <CellDialog
          cell={cell}
          dataset={result?.datasets[0]?.name ?? null}
          onClose={() => setCell(null)}
          onUse={(sql) => {
            setCell(null);
            use(sql);
          }}
        />
      )}
      {history && (
        <HistoryDialog
          entries={history}
          onClose={() => setHistory(null)}
          onUse={(sql) => {
            setHistory(null);
            editor.current?.replace(sql);
          }}
        />
      )}
    </Page>
  );
}

function NameTree({
  datasets,
  onInsert,
}: {
  datasets: S<"DatasetSummary">[];
  onInsert: (text: string) => void;
}) {
  const [open, setOpen] = useState<string | null>(null);
  if (datasets.length === 0) return <p className="faint">Nothing is published yet.</p>;
  return (
    <ul>
      {datasets.map((each) => (
        <li key={each.dataset_uuid}>
          <button
            type="button"
            className="name"
            aria-expanded={open === each.name}
            onClick={() => setOpen(open === each.name ? null : each.name)}
          >
            <Icon name="chevron" size={12} />
            <span className="clip">{each.name}</span>
          </button>
          {open === each.name && (
            <ul className="columns">
              {(each.columns ?? []).map((column) => (
                <li key={column.name}>
                  <button
                    type="button"
                    title={`Insert ${column.name}`}
                    onClick={() => onInsert(column.name)}
                  >
                    <span className="clip">{column.name}</span>
                    <span className="faint clip">{column.type.toLowerCase()}</span>
                  </button>
                </li>
              ))}
              {each.columns === null && <li className="faint">No rows yet, so no columns.</li>}
            </ul>
          )}
        </li>
      ))}
    </ul>
  );
}

function RunBar(props: {
  going: Going | null;
  canRun: boolean;
  limit: number;
  at: string;
  onLimit: (limit: number) => void;
  onAt: (at: string) => void;
  onRun: () => void;
  onCancel: () => void;
}) {
  return (
    <div className="run-bar">
      {props.going ? (
        <Button icon="stop" look="danger" onClick={props.onCancel}>
          Cancel
        </Button>
      ) : (
        <Button icon="play" look="main" disabled={!props.canRun} onClick={props.onRun}>
          Run
        </Button>
      )}
      <kbd className="only-wide">Ctrl Enter</kbd>
      <select
        aria-label="Rows at most"
        value={props.limit}
        onChange={(event) => props.onLimit(Number(event.target.value))}
      >
        {LIMITS.map((each) => (
          <option key={each} value={each}>
            up to {count(each)} rows
          </option>
        ))}
      </select>
      <input
        className="at"
        aria-label="As of a moment or a version"
        placeholder="as of now"
        title="A time with its zone, or the beginning of the id of a deploy or a generation"
        value={props.at}
        onChange={(event) => props.onAt(event.target.value)}
      />
    </div>
  );
}

function Waiting({ going }: { going: Going }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((performance.now() - going.began) / 1000), 200);
    return () => clearInterval(timer);
  }, [going]);
  return (
    <>
      <div className="answer-bar" role="status">
        {seconds < 1 ? "Running" : `Running for ${duration(seconds)}`}
      </div>
      <div className="answer-body">
        <div style={{ padding: 14 }}>
          <Skeleton lines={8} />
        </div>
      </div>
    </>
  );
}

function Answer({
  result,
  shown,
  onShow,
  onCell,
  at,
}: {
  result: Result;
  shown: Shown;
  onShow: (shown: Shown) => void;
  onCell: (cell: Cell) => void;
  at: string | null;
}) {
  const masked = result.datasets.flatMap((each) =>
    (each.masked ?? []).map((column) => `${each.name}.${column}`),
  );
  return (
    <>
      <div className="answer-bar">
        <span className="choice">
          {(["rows", "chart"] as const).map((each) => (
            <button
              key={each}
              type="button"
              aria-pressed={shown === each}
              onClick={() => onShow(each)}
            >
              {each === "rows" ? "Rows" : "Chart"}
            </button>
          ))}
        </span>
        <span>
          {plural(result.rowCount, "row")}
          {result.truncated && <span className="warn-text"> · there are more</span>}
        </span>
        <span>{duration(result.elapsedMs / 1000)}</span>
        <span className="clip">
          {result.datasets
            .map((each) => `${each.name}@${each.dataset_version.slice(0, 8)}`)
            .join(", ")}
        </span>
        {masked.length > 0 && <span className="warn-text">masked: {masked.join(", ")}</span>}
        <span className="grow" />
        <Exports sql={result.sql} at={at} />
      </div>
      <div className="answer-body">
        {result.rowCount === 0 ? (
          <Empty title="No rows">
            The statement ran, and nothing fits it. Its columns:{" "}
            {result.columns.map((column) => column.name).join(", ")}.
          </Empty>
        ) : shown === "rows" ? (
          <Grid key={result.id} result={result} onCell={onCell} />
        ) : (
          <ResultChart result={result} />
        )}
      </div>
    </>
  );
}

function Exports({ sql, at }: { sql: string; at: string | null }) {
  const [busy, setBusy] = useState<string | null>(null);
  const save = async (format: "csv" | "parquet") => {
    setBusy(format);
    try {
      if (format === "csv") {
        const answer = await send("POST", "/v1/query", { sql, at, format });
        download(URL.createObjectURL(await answer.blob()), "result.csv");
      } else {
        const made = (await post("/v1/query", {
          body: { sql, at, format, page_rows: 1 },
        })) as S<"QueryExport">;
        // Reached once before, so that a session that is over is noticed here.
        await call("/v1/session", { method: "GET" });
        download(made.link, "result.parquet");
        say(
          `${plural(made.row_count, "row")} as Parquet; the link is good until ${clock(made.expires_at)}.`,
        );
      }
    } catch (error) {
      complain(error);
    } finally {
      setBusy(null);
    }
  };
  return (
    <span className="row" title="All rows of the statement, without the limit">
      {(["csv", "parquet"] as const).map((format) => (
        <Button
          key={format}
          look="quiet"
          icon="down"
          disabled={busy !== null}
          onClick={() => void save(format)}
        >
          {busy === format ? "Writing…" : format === "csv" ? "CSV" : "Parquet"}
        </Button>
      ))}
    </span>
  );
}

function download(href: string, name: string): void {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
  if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

function CellDialog({
  cell,
  dataset,
  onClose,
  onUse,
}: {
  cell: Cell;
  dataset: string | null;
  onClose: () => void;
  onUse: (sql: string) => void;
}) {
  const text = cellText(cell.value);
  const hex = /^0x[0-9a-f]+$/i.test(text);
  const find =
    hex && dataset !== null
      ? `select *\n  from ${dataset}\n where ${cell.column} = '${text}'\n limit 100`
      : null;
  return (
    <Dialog title={`${cell.column} · ${cell.type}`} onClose={onClose}>
      <pre className="cell-value" tabIndex={0}>
        {text}
      </pre>
      <div className="actions">
        {find !== null && (
          <Button onClick={() => onUse(find)}>
            Rows of {dataset} with this {cell.column}
          </Button>
        )}
        <Button
          icon="copy"
          look="main"
          onClick={() => {
            void navigator.clipboard.writeText(text).then(() => say("Copied."));
            onClose();
          }}
        >
          Copy
        </Button>
      </div>
    </Dialog>
  );
}

function HistoryDialog({
  entries,
  onClose,
  onUse,
}: {
  entries: Past[];
  onClose: () => void;
  onUse: (sql: string) => void;
}) {
  const recorded = useQuery(ask.ownQueries());
  return (
    <Dialog title="History" onClose={onClose} wide>
      {entries.length === 0 && (
        <Empty title="Nothing was asked in this browser yet">
          Statements that run here are kept in this browser, the newest 100.
        </Empty>
      )}
      <ul className="past">
        {entries.map((entry) => (
          <li key={entry.id}>
            <button type="button" onClick={() => onUse(entry.sql)}>
              <pre>{entry.sql}</pre>
              <span className={entry.error === null ? "faint" : "bad-text"}>
                {clock(entry.at)}
                {entry.error !== null
                  ? ` · ${entry.error}`
                  : ` · ${plural(entry.rows ?? 0, "row")} · ${duration((entry.ms ?? 0) / 1000)}`}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <Loaded query={recorded} lines={2}>
        {(data) => (
          <p className="faint">
            The instance has your newest {data.queries.length} queries on record, by their hash and
            without their text
            {data.queries[0]
              ? `, the last one at ${clock(data.queries[0].started_at)} (${shortId(data.queries[0].query_id)})`
              : ""}
            .
          </p>
        )}
      </Loaded>
    </Dialog>
  );
}
