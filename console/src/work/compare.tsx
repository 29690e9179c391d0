import { useQueries } from "@tanstack/react-query";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Skeleton } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { clock, duration } from "../ui/format";
import { ProblemBox } from "../ui/problem";
import { scopeOf } from "./scope";

/** Two tasks beside each other; what differs is marked. */
export function Compare({ tasks, onClose }: { tasks: [string, string]; onClose: () => void }) {
  const [left, right] = useQueries({ queries: [ask.task(tasks[0]), ask.task(tasks[1])] });
  const failed = left.error ?? right.error;
  return (
    <Dialog title="Two tasks beside each other" onClose={onClose} wide>
      {failed ? (
        <ProblemBox error={failed} />
      ) : left.data && right.data ? (
        <div className="compare">
          <Facts task={left.data} beside={right.data} />
          <Facts task={right.data} beside={left.data} />
        </div>
      ) : (
        <Skeleton lines={8} />
      )}
    </Dialog>
  );
}

function Facts({ task, beside }: { task: S<"TaskDetail">; beside: S<"TaskDetail"> }) {
  const other = new Map(factsOf(beside));
  return (
    <dl className="facts">
      {factsOf(task).map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd className={other.get(name) === value ? "" : "differs"}>{value || "–"}</dd>
        </div>
      ))}
    </dl>
  );
}

function factsOf(task: S<"TaskDetail">): [string, string][] {
  const last = task.attempts.at(-1);
  const took =
    last?.ended_at != null
      ? duration((Date.parse(last.ended_at) - Date.parse(last.started_at)) / 1000)
      : "";
  return [
    ["Task", task.task_id],
    ["Job", `${task.dag_name}.${task.job_name}`],
    ["State", task.status],
    ["Range", scopeOf(task)],
    ["Attempts", String(task.attempts.length)],
    ["Newest took", took],
    ["Began", last ? clock(last.started_at) : ""],
    ["Worker", task.worker_id ?? ""],
    ["Error", task.error_message ?? ""],
    [
      "Inputs",
      [...new Set(task.inputs.map((each) => String(each.dataset_version).slice(0, 8)))].join(", "),
    ],
    [
      "Outputs",
      task.outputs.map((each) => `${each.name}@${each.dataset_version.slice(0, 8)}`).join(", "),
    ],
    ["Operator", task.limits.operator ?? ""],
    ["Time limit", duration(task.limits.timeout_seconds)],
  ];
}
