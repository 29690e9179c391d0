import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Button, Command, Field } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { bytes, count, duration, plural } from "../ui/format";
import { ProblemBox } from "../ui/problem";
import { say } from "../ui/toast";

interface Wanted {
  dag: string;
  job: string;
  start: string;
  end: string;
  force: boolean;
  inFlight: string;
}

/** A range of a job again: first what it would do, then the start of exactly that. */
export function BackfillDialog({
  producer,
  start,
  end,
  onClose,
}: {
  /** DAG.JOB; without it, it is chosen. */
  producer?: string;
  start?: number;
  end?: number;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [dag = "", job = ""] = producer?.split(".") ?? [];
  const [wanted, setWanted] = useState<Wanted>({
    dag,
    job,
    start: start === undefined ? "" : String(start),
    end: end === undefined ? "" : String(end),
    force: false,
    inFlight: "8",
  });
  const range = () => ({
    dag_name: wanted.dag,
    job_name: wanted.job,
    start: Number(wanted.start),
    end: Number(wanted.end),
    force: wanted.force,
  });
  const plan = useMutation({ mutationFn: () => post("/v1/backfills/plan", { body: range() }) });
  const begin = useMutation({
    mutationFn: () =>
      post("/v1/backfills", {
        body: {
          ...range(),
          max_in_flight: Number(wanted.inFlight),
          request_id: crypto.randomUUID(),
        },
      }),
    onSuccess: (started) => {
      say(
        started.backfill
          ? `The backfill runs: ${plural(started.backfill.total, "task")}.`
          : "There is nothing to do.",
      );
      void client.invalidateQueries({ queryKey: ["backfills"] });
      onClose();
    },
  });
  const change = (part: Partial<Wanted>) => {
    setWanted({ ...wanted, ...part });
    plan.reset();
    begin.reset();
  };
  const ready = wanted.dag && wanted.job && wanted.start !== "" && wanted.end !== "";
  return (
    <Dialog title="Backfill a range" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          if (plan.data) begin.mutate();
          else plan.mutate();
        }}
      >
        {producer ? (
          <p>
            <span className="mono">{producer}</span> does the range again, and what reads it
            follows.
          </p>
        ) : (
          <JobChoice
            dag={wanted.dag}
            job={wanted.job}
            onChange={(nextDag, nextJob) => change({ dag: nextDag, job: nextJob })}
          />
        )}
        <div className="row">
          <Field label="First block">
            <input
              type="number"
              min={0}
              required
              value={wanted.start}
              onChange={(event) => change({ start: event.target.value })}
            />
          </Field>
          <Field label="Last block">
            <input
              type="number"
              min={0}
              required
              value={wanted.end}
              onChange={(event) => change({ end: event.target.value })}
            />
          </Field>
          <Field label="Tasks at once">
            <input
              type="number"
              min={1}
              required
              value={wanted.inFlight}
              onChange={(event) => change({ inFlight: event.target.value })}
            />
          </Field>
        </div>
        <label className="row">
          <input
            type="checkbox"
            checked={wanted.force}
            onChange={(event) => change({ force: event.target.checked })}
          />
          Also what is up to date
        </label>
        {plan.isError && <ProblemBox error={plan.error} />}
        {begin.isError && <ProblemBox error={begin.error} />}
        {plan.data && <Preview plan={plan.data} />}
        <div className="actions">
          <Button onClick={onClose}>Close</Button>
          {plan.data ? (
            <Button type="submit" look="main" disabled={begin.isPending || plan.data.tasks === 0}>
              {begin.isPending ? "Starting…" : `Start ${plural(plan.data.tasks, "task")}`}
            </Button>
          ) : (
            <Button type="submit" look="main" disabled={!ready || plan.isPending}>
              {plan.isPending ? "Looking…" : "Preview"}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function JobChoice({
  dag,
  job,
  onChange,
}: {
  dag: string;
  job: string;
  onChange: (dag: string, job: string) => void;
}) {
  const dags = useQuery(ask.dags());
  const all = (dags.data?.dags ?? []).flatMap((each) =>
    each.job_names.map((name) => [each.dag_name, name] as const),
  );
  return (
    <Field label="Job">
      <select
        value={job ? `${dag}.${job}` : ""}
        onChange={(event) => {
          const [nextDag = "", nextJob = ""] = event.target.value.split(".");
          onChange(nextDag, nextJob);
        }}
      >
        <option value="">Choose a job</option>
        {all.map(([eachDag, eachJob]) => (
          <option key={`${eachDag}.${eachJob}`}>{`${eachDag}.${eachJob}`}</option>
        ))}
      </select>
    </Field>
  );
}

function Preview({ plan }: { plan: S<"BackfillPlan"> }) {
  const { amount } = plan;
  return (
    <div className="stack" role="status">
      <dl className="facts">
        <dt>Would make</dt>
        <dd>
          {plural(plan.tasks, "task")}, {count(plan.slots)} at once as far as workers have said
        </dd>
        <dt>Skipped</dt>
        <dd>
          {count(plan.up_to_date)} up to date, {count(plan.under_way)} under way
        </dd>
        {(amount.rows ?? 0) > 0 && (
          <>
            <dt>Data</dt>
            <dd>
              {plural(amount.rows ?? 0, "row")}, {bytes(amount.bytes ?? 0)}
            </dd>
          </>
        )}
        <dt>Work</dt>
        <dd>
          {typeof amount.seconds === "number"
            ? `about ${duration(amount.seconds / Math.max(1, plan.slots))}`
            : "past tasks do not tell how long"}
        </dd>
      </dl>
      {plan.gaps.length > 0 && (
        <div>
          <p className="warn-text">
            No input holds{" "}
            {plan.gaps
              .slice(0, 5)
              .map((gap) => `${count(gap.start)} to ${count(gap.end)}`)
              .join(", ")}
            .
          </p>
          {plan.upstream.map((each) => (
            <p key={each.job}>
              {each.job} could make them:{" "}
              {each.command ? <Command>{each.command}</Command> : "it does so by itself"}
            </p>
          ))}
        </div>
      )}
    </div>
  );
}
