import type { S } from "../api/types";
import { bytes, duration, plural, short } from "../ui/format";

const BUILT = ["added", "changed", "affected"];

/** What a deploy would do: each job, why, and how much of its data is made anew. */
export function PlanView({ plan }: { plan: S<"Plan"> }) {
  const built = plan.jobs.filter((job) => BUILT.includes(job.action));
  const sum = (of: (amount: S<"Amount">) => number) =>
    built.reduce((total, job) => total + (job.holds ? of(job.holds) : 0), 0);
  const rows = sum((amount) => amount.rows ?? 0);
  const seconds = sum((amount) => amount.seconds ?? 0);
  const most = Math.max(1, ...plan.jobs.map((job) => job.holds?.rows ?? 0));
  return (
    <div className="stack">
      <p>
        {built.length === 0 ? (
          <strong>Nothing is built anew.</strong>
        ) : (
          <>
            <strong>
              {plural(built.length, "job")} built anew, about {short(rows)} rows,{" "}
              {bytes(sum((amount) => amount.bytes ?? 0))}
            </strong>
            {seconds > 0 && (
              <>
                , about {duration(seconds / Math.max(1, plan.slots))} with{" "}
                {plural(plan.slots, "slot")}
              </>
            )}
            . What readers see stays until all of it is there.
          </>
        )}
      </p>
      <ul className="list">
        {plan.jobs.map((job) => (
          <li key={job.job} className="plan-job">
            <span className={`action a-${job.action}`}>{job.action}</span>
            <span className="mono wrap">{job.job}</span>
            <span className={`a-${job.action} only-wide`} aria-hidden="true">
              <div
                className="plan-bar"
                style={{ width: `${(100 * (job.holds?.rows ?? 0)) / most}%` }}
              />
            </span>
            <span className="faint right nowrap only-wide">{short(job.holds?.rows ?? 0)} rows</span>
            {job.why.length > 0 && <span className="plan-why">{job.why.join("; ")}</span>}
          </li>
        ))}
      </ul>
      {plan.publishes.length > 0 && (
        <ul className="list">
          {plan.publishes.map((each) => (
            <li key={each.dataset}>
              <span className="mono">{each.dataset}</span> is {each.action}:{" "}
              <span className="soft">{each.why}</span>
            </li>
          ))}
        </ul>
      )}
      {plan.readers.length > 0 && (
        <p className="warn-text wrap">
          Read by other DAGs:{" "}
          {plan.readers
            .map((each) => `${each.dag_name}.${each.job_name} reads ${each.dataset}`)
            .join(", ")}
        </p>
      )}
      {(plan.warnings ?? []).map((warning) => (
        <p key={warning} className="warn-text wrap">
          {warning}
        </p>
      ))}
    </div>
  );
}
