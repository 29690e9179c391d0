import { Link } from "@tanstack/react-router";
import type { S } from "../api/types";
import { clock, duration } from "../ui/format";
import { useNow } from "../ui/now";
import { taskState, toneOf } from "../ui/state";

const LANES = 10;

/** When the shown tasks ran, a line for each job. */
export function Timeline({ tasks }: { tasks: S<"TaskStatus">[] }) {
  const now = useNow();
  const begun = tasks.filter((task) => task.started_at !== null);
  if (begun.length === 0) return null;
  const starts = begun.map((task) => Date.parse(task.started_at!));
  const ends = begun.map((task) => endOf(task, now));
  const from = Math.min(...starts);
  const to = Math.max(...ends, from + 1000);
  const lanes = new Map<string, S<"TaskStatus">[]>();
  for (const task of begun) {
    const name = `${task.dag_name}.${task.job_name}`;
    lanes.set(name, [...(lanes.get(name) ?? []), task]);
  }
  const place = (at: number) => (100 * (at - from)) / (to - from);
  return (
    <div className="timeline">
      {[...lanes].slice(0, LANES).map(([name, of]) => (
        <div key={name} className="lane">
          <span className="lane-name clip" title={name}>
            {name}
          </span>
          <div className="lane-bars">
            {of.map((task) => {
              const start = Date.parse(task.started_at!);
              const end = endOf(task, now);
              const state = taskState(task);
              const said = `${state}, ${clock(task.started_at!)}, ${duration((end - start) / 1000)}`;
              return (
                <Link
                  key={task.task_id}
                  to="/tasks/$task/"
                  params={{ task: task.task_id }}
                  className={toneOf(state)}
                  aria-label={`${name}: ${said}`}
                  title={said}
                  tabIndex={-1}
                  style={{
                    left: `${Math.min(99.5, place(start))}%`,
                    width: `${place(end) - place(start)}%`,
                  }}
                />
              );
            })}
          </div>
        </div>
      ))}
      <div className="lane-axis">
        <span title={clock(new Date(from).toISOString())}>
          {clock(new Date(from).toISOString()).slice(11)}
        </span>
        <span>{duration((to - from) / 1000)}</span>
        <span>{clock(new Date(to).toISOString()).slice(11)}</span>
      </div>
    </div>
  );
}

function endOf(task: S<"TaskStatus">, now: number): number {
  if (task.status === "Running") return now;
  return Date.parse(task.completed_at ?? task.started_at!);
}
