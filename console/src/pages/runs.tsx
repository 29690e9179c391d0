import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { createColumnHelper, type RowSelectionState } from "@tanstack/react-table";
import { useRef, useState } from "react";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S, TaskState } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Button, Card, Empty, NoMatch } from "../ui/basics";
import { clock, duration, plural, shortId } from "../ui/format";
import { Loaded } from "../ui/problem";
import { State, taskState } from "../ui/state";
import { Table } from "../ui/table";
import { complain, say } from "../ui/toast";
import { BulkDialog } from "../work/bulk_dialog";
import { Compare } from "../work/compare";
import { scopeOf } from "../work/scope";
import { Timeline } from "../work/timeline";
import "./runs.css";

const STATES: TaskState[] = ["Queued", "Running", "Completed", "Failed", "Canceled"];
const FIRST = 200;
const MOST = 1000;

const column = createColumnHelper<S<"TaskStatus">>();
const COLUMNS = [
  column.accessor((row) => taskState(row), {
    id: "state",
    header: "State",
    cell: (cell) => <State state={cell.getValue()} />,
  }),
  column.accessor((row) => `${row.dag_name}.${row.job_name}`, {
    id: "job",
    header: "Job",
    cell: (cell) => (
      <Link to="/tasks/$task/" params={{ task: cell.row.original.task_id }}>
        {cell.getValue()}
      </Link>
    ),
  }),
  column.accessor(scopeOf, {
    id: "scope",
    header: "Range",
    meta: { wide: true },
    cell: (cell) => <span className="mono">{cell.getValue()}</span>,
  }),
  column.accessor((row) => row.completed_at ?? row.started_at ?? row.created_at, {
    id: "at",
    header: "When",
    cell: (cell) => <Ago at={cell.getValue()} />,
  }),
  column.accessor(tookOf, {
    id: "took",
    header: "Took",
    meta: { right: true, wide: true },
    cell: (cell) => (cell.getValue() === null ? "–" : duration(cell.getValue()!)),
  }),
  column.accessor("attempt", { header: "Attempt", meta: { right: true, wide: true } }),
  column.accessor((row) => row.error_message ?? row.note ?? "", {
    id: "said",
    header: "Message",
    meta: { wide: true, grow: true },
    cell: (cell) => (
      <span className={cell.row.original.error_code ? "bad-text" : "faint"} title={cell.getValue()}>
        {cell.getValue()}
      </span>
    ),
  }),
  column.accessor("task_id", {
    header: "Id",
    meta: { wide: true },
    cell: (cell) => <span className="mono faint">{shortId(cell.getValue())}</span>,
  }),
];

function tookOf(row: S<"TaskStatus">): number | null {
  if (row.started_at === null || row.completed_at === null) return null;
  return (Date.parse(row.completed_at) - Date.parse(row.started_at)) / 1000;
}

export function Runs() {
  const search = useSearch({ from: "/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const status = STATES.find((state) => state === search.status);
  const filter: ask.TaskFilter = { dag: search.dag, job: search.job, status };
  const [limit, setLimit] = useState(FIRST);
  const tasks = useQuery(ask.tasks(filter, limit));
  const dags = useQuery(ask.dags());
  const [selected, setSelected] = useState<RowSelectionState>({});
  const [bulk, setBulk] = useState<"cancel" | "retry" | null>(null);
  const [comparing, setComparing] = useState(false);
  const picked = Object.keys(selected).filter((id) => selected[id]);
  // Rows stand still while some are selected: nobody cancels the wrong one.
  const still = useRef<S<"TaskList"> | undefined>(undefined);
  if (picked.length === 0 || still.current === undefined) still.current = tasks.data;
  const go = (part: Partial<typeof search>) => {
    setSelected({});
    void navigate({ to: "/runs/", search: { ...search, ...part }, replace: true });
  };
  const filtered = Boolean(search.dag || search.job || search.status);
  const jobs = (dags.data?.dags ?? [])
    .filter((dag) => !search.dag || dag.dag_name === search.dag)
    .flatMap((dag) => dag.job_names);
  return (
    <Page
      title="Runs"
      doc="state-machine"
      actions={
        filtered && (
          <>
            <Button onClick={() => setBulk("retry")}>Retry all that fit</Button>
            <Button look="danger" onClick={() => setBulk("cancel")}>
              Cancel all that fit
            </Button>
          </>
        )
      }
    >
      <div className="filters">
        <select
          aria-label="DAG"
          value={search.dag ?? ""}
          onChange={(event) => go({ dag: event.target.value || undefined, job: undefined })}
        >
          <option value="">Every DAG</option>
          {(dags.data?.dags ?? []).map((dag) => (
            <option key={dag.dag_name}>{dag.dag_name}</option>
          ))}
        </select>
        <select
          aria-label="Job"
          value={search.job ?? ""}
          onChange={(event) => go({ job: event.target.value || undefined })}
        >
          <option value="">Every job</option>
          {[...new Set(jobs)].map((job) => (
            <option key={job}>{job}</option>
          ))}
        </select>
        <span className="choice" role="group" aria-label="State">
          {[undefined, ...STATES].map((state) => (
            <button
              key={state ?? "any"}
              type="button"
              aria-pressed={status === state}
              onClick={() => go({ status: state })}
            >
              {state ?? "Any"}
            </button>
          ))}
        </span>
      </div>
      {picked.length > 0 && (
        <SelectedBar
          picked={picked}
          onCompare={() => setComparing(true)}
          onDone={() => setSelected({})}
        />
      )}
      <Loaded query={tasks} lines={10}>
        {() => {
          const data = still.current!;
          if (data.tasks.length === 0) {
            return (
              <Card>
                {filtered ? (
                  <NoMatch
                    onClear={() => go({ dag: undefined, job: undefined, status: undefined })}
                  />
                ) : (
                  <Empty
                    title="No task has been made yet"
                    command="trace sources trigger chain request --from 0 --to 999 --wait"
                  >
                    A task is one piece of work of one job. It is made when a source emits, or when
                    something that its job reads has changed.
                  </Empty>
                )}
              </Card>
            );
          }
          return (
            <div className="grid">
              <Card>
                <Timeline tasks={data.tasks} />
              </Card>
              <Card className="flush">
                <Table
                  label="Tasks"
                  rows={data.tasks}
                  columns={COLUMNS}
                  rowId={(row) => row.task_id}
                  selecting={{ selected, onSelect: setSelected }}
                  onOpen={(row) =>
                    void navigate({ to: "/tasks/$task/", params: { task: row.task_id } })
                  }
                />
              </Card>
              {data.more && (
                <p className="faint">
                  The newest {plural(data.tasks.length, "task")}.{" "}
                  {limit < MOST ? (
                    <button type="button" className="link" onClick={() => setLimit(MOST)}>
                      Show {MOST}
                    </button>
                  ) : (
                    "Filters lead to older ones."
                  )}
                </p>
              )}
            </div>
          );
        }}
      </Loaded>
      {bulk && <BulkDialog what={bulk} filter={filter} onClose={() => setBulk(null)} />}
      {comparing && picked.length === 2 && (
        <Compare tasks={[picked[0]!, picked[1]!]} onClose={() => setComparing(false)} />
      )}
    </Page>
  );
}

function SelectedBar({
  picked,
  onCompare,
  onDone,
}: {
  picked: string[];
  onCompare: () => void;
  onDone: () => void;
}) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const each = async (what: "cancel" | "retry") => {
    setBusy(true);
    let done = 0;
    try {
      for (const task of picked) {
        await post(what === "cancel" ? "/v1/tasks/{task_id}/cancel" : "/v1/tasks/{task_id}/retry", {
          path: { task_id: task },
        });
        done += 1;
      }
      say(`${plural(done, "task")} ${what === "cancel" ? "canceled" : "will run again"}.`);
      onDone();
    } catch (error) {
      if (done > 0) say(`${plural(done, "task")} before it:`);
      complain(error);
    } finally {
      setBusy(false);
      void client.invalidateQueries({ queryKey: ["tasks"] });
    }
  };
  return (
    <div className="bulk" role="status">
      <strong>{plural(picked.length, "task")} selected</strong>
      <span className="soft">
        The table stands still meanwhile, as of {clock(new Date().toISOString()).slice(11)}.
      </span>
      <span className="grow" />
      {picked.length === 2 && <Button onClick={onCompare}>Compare</Button>}
      <Button disabled={busy} onClick={() => void each("retry")}>
        Retry
      </Button>
      <Button look="danger" disabled={busy} onClick={() => void each("cancel")}>
        Cancel
      </Button>
      <Button look="quiet" onClick={onDone}>
        Clear
      </Button>
    </div>
  );
}
