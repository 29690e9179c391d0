import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Bar, Button, Card, Empty, Figure } from "../ui/basics";
import { clock, count, duration, plural } from "../ui/format";
import { useNow } from "../ui/now";
import { Loaded } from "../ui/problem";
import { Glyph, State, taskState, toneOf } from "../ui/state";
import { complain, say } from "../ui/toast";
import { LogView } from "../work/log_view";
import { inputsOf, scopeOf } from "../work/scope";
import { WhyNode } from "../work/why_node";
import "./runs.css";

export function TaskPage() {
  const { task: id } = useParams({ from: "/tasks/$task" });
  const { attempt: asked } = useSearch({ from: "/tasks/$task" });
  const navigate = useNavigate({ from: "/tasks/$task" });
  const task = useQuery(ask.task(id));
  const data = task.data;
  const attempt = data?.attempts.find((each) => each.attempt === asked) ?? data?.attempts.at(-1);
  return (
    <Page
      title={data ? `${data.dag_name}.${data.job_name} ${scopeOf(data)}` : "Task"}
      under={
        <Link to="/runs/" search={data ? { dag: data.dag_name, job: data.job_name } : {}}>
          Runs
        </Link>
      }
      doc="state-machine"
      actions={data && <Actions task={data} />}
    >
      <Loaded query={task} lines={8}>
        {(found) => (
          <div className="grid">
            <Head task={found} />
            <div className="grid side-right">
              <div className="grid">
                {found.status !== "Completed" && (
                  <Card title="Why">
                    <WhyNode subject={found.task_id} root />
                  </Card>
                )}
                <Card
                  title={
                    found.attempts.length > 1 ? plural(found.attempts.length, "attempt") : "Attempt"
                  }
                >
                  {attempt ? (
                    <div className="attempt">
                      {found.attempts.length > 1 && (
                        <div className="attempt-tabs">
                          {found.attempts.map((each) => (
                            <button
                              key={each.attempt}
                              type="button"
                              aria-pressed={each.attempt === attempt.attempt}
                              onClick={() =>
                                void navigate({
                                  to: "./",
                                  search: { attempt: each.attempt },
                                  replace: true,
                                })
                              }
                            >
                              <Glyph tone={toneOf(each.outcome ?? "Running")} /> {each.attempt}
                            </button>
                          ))}
                        </div>
                      )}
                      <Attempt attempt={attempt} />
                      <AttemptLog task={found} attempt={attempt} />
                    </div>
                  ) : (
                    <p className="faint">It has not been tried yet.</p>
                  )}
                </Card>
              </div>
              <Aside task={found} />
            </div>
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function Actions({ task }: { task: S<"TaskDetail"> }) {
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (what: "cancel" | "retry") =>
      post(what === "cancel" ? "/v1/tasks/{task_id}/cancel" : "/v1/tasks/{task_id}/retry", {
        path: { task_id: task.task_id },
      }),
    onSuccess: (done) => say(`The task is ${done.status} now.`),
    onError: complain,
    onSettled: () => void client.invalidateQueries({ queryKey: ["task", task.task_id] }),
  });
  const ended =
    ["Completed", "Canceled"].includes(task.status) ||
    (task.status === "Failed" && task.next_retry_at === null);
  return (
    <>
      {(task.status === "Failed" || task.status === "Canceled") && (
        <Button look="main" disabled={act.isPending} onClick={() => act.mutate("retry")}>
          Retry
        </Button>
      )}
      {!ended && (
        <Button
          look="danger"
          disabled={act.isPending || task.cancel_requested_at !== null}
          onClick={() => act.mutate("cancel")}
        >
          {task.cancel_requested_at === null ? "Cancel" : "Cancel asked for"}
        </Button>
      )}
    </>
  );
}

function Head({ task }: { task: S<"TaskDetail"> }) {
  const now = useNow();
  const last = task.attempts.at(-1);
  const end = last?.ended_at ? Date.parse(last.ended_at) : now;
  return (
    <Card>
      <div className="figures">
        <Figure label="State">
          <State state={taskState(task)} />
        </Figure>
        <Figure label="Made">
          <Ago at={task.created_at} />
        </Figure>
        <Figure label="Waited">
          {duration(
            ((task.started_at ? Date.parse(task.started_at) : now) - Date.parse(task.queued_at)) /
              1000,
          )}
        </Figure>
        <Figure label={last?.ended_at ? "Took" : "Runs for"}>
          {last ? duration((end - Date.parse(last.started_at)) / 1000) : "–"}
        </Figure>
        <Figure label="Attempts">
          {task.attempt}
          {task.limits.max_attempts !== null && ` of ${task.limits.max_attempts}`}
        </Figure>
        {task.next_retry_at && (
          <Figure label="Runs again">{clock(task.next_retry_at).slice(11)}</Figure>
        )}
        <Progress task={task} />
      </div>
      {(task.error_message ?? task.note) && (
        <p className={`wrap ${task.error_message ? "bad-text" : "soft"}`} style={{ marginTop: 10 }}>
          {task.error_code && (
            <>
              <Link to="/docs/$page/" params={{ page: "errors" }}>
                <code>{task.error_code}</code>
              </Link>
              :{" "}
            </>
          )}
          {task.error_message ?? task.note}
        </p>
      )}
    </Card>
  );
}

function Progress({ task }: { task: S<"TaskDetail"> }) {
  const done = task.progress?.done;
  const total = task.progress?.total;
  if (
    task.status !== "Running" ||
    typeof done !== "number" ||
    typeof total !== "number" ||
    total === 0
  )
    return null;
  const said = `${count(done)} of ${count(total)} parts`;
  return (
    <Figure label="Spark's progress">
      <span className="progress">
        <Bar
          label={said}
          parts={[
            { tone: "busy", value: done },
            { tone: "rest", value: total - done },
          ]}
        />
        <span style={{ fontSize: 12, fontWeight: 400 }}>{said}</span>
      </span>
    </Figure>
  );
}

function Attempt({ attempt }: { attempt: S<"AttemptStatus"> }) {
  return (
    <>
      <dl className="facts">
        <dt>Outcome</dt>
        <dd>
          <State state={attempt.outcome ?? "Running"} />
        </dd>
        <dt>Began</dt>
        <dd>{clock(attempt.started_at)}</dd>
        <dt>Ended</dt>
        <dd>{attempt.ended_at ? clock(attempt.ended_at) : "it runs"}</dd>
        <dt>Worker</dt>
        <dd className="mono">{attempt.worker_id}</dd>
      </dl>
      {attempt.error_message && (
        <p className="problem wrap">
          {attempt.error_message}
          <span className="problem-code">{attempt.error_code}</span>
        </p>
      )}
    </>
  );
}

function AttemptLog({ task, attempt }: { task: S<"TaskDetail">; attempt: S<"AttemptStatus"> }) {
  const id = task.task_id;
  const log = useQuery({ ...ask.taskLog(id, attempt.attempt), enabled: attempt.has_log });
  if (!attempt.has_log) {
    return (
      <Empty
        title="No log"
        command={
          task.limits.runtime === "dispatcher" ? "trace logs dispatcher" : "trace logs worker"
        }
      >
        {attempt.ended_at
          ? "Its operator said nothing."
          : "A log can be read once the attempt has ended."}{" "}
        The log of the process that ran it has the rest.
      </Empty>
    );
  }
  return (
    <Loaded query={log} lines={6}>
      {(file) => <LogView file={file} name={`${id}-${attempt.attempt}`} />}
    </Loaded>
  );
}

function Aside({ task }: { task: S<"TaskDetail"> }) {
  const datasets = useQuery(ask.datasets(true));
  const names = new Map(datasets.data?.datasets.map((each) => [each.dataset_uuid, each.dataset]));
  const inputs = inputsOf(task, names);
  return (
    <div className="grid">
      <Card title="Inputs">
        {inputs.length === 0 && <p className="faint">None: a source reads from outside.</p>}
        <ul className="list">
          {inputs.slice(0, 40).map((input, index) => (
            <li key={index}>
              <Link to="/datasets/$dataset/" params={{ dataset: input.name }} className="wrap">
                {input.name}
              </Link>
              <span className="faint mono">@{input.version.slice(0, 8)}</span>
              <div className="faint">
                {input.scope}
                {!input.trigger && ", read along"}
              </div>
            </li>
          ))}
          {inputs.length > 40 && (
            <li className="faint">{plural(inputs.length - 40, "more input")}</li>
          )}
        </ul>
      </Card>
      <Card title="Outputs">
        {task.outputs.length === 0 && <p className="faint">None.</p>}
        <ul className="list">
          {task.outputs.map((output) => (
            <li key={output.output_index}>
              <Link
                to="/datasets/$dataset/"
                params={{ dataset: names.get(output.dataset_uuid) ?? output.dataset_uuid }}
                className="wrap"
              >
                {names.get(output.dataset_uuid) ?? output.name}
              </Link>
              <span className="faint mono">@{output.dataset_version.slice(0, 8)}</span>
            </li>
          ))}
        </ul>
      </Card>
      <Card title="Limits">
        <dl className="facts">
          <dt>Task</dt>
          <dd className="mono">{task.task_id}</dd>
          <dt>Runtime</dt>
          <dd className="mono">{task.limits.runtime}</dd>
          <dt>Operator</dt>
          <dd className="mono">{task.limits.operator ?? "none"}</dd>
          <dt>Priority</dt>
          <dd>{task.limits.priority}</dd>
          <dt>Time limit</dt>
          <dd>{duration(task.limits.timeout_seconds)}</dd>
          <dt>At once</dt>
          <dd>{task.limits.max_concurrency ?? "no limit"}</dd>
        </dl>
      </Card>
    </div>
  );
}
