import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Button, Card } from "../ui/basics";
import { count, duration } from "../ui/format";
import { complain, say } from "../ui/toast";
import { WhyNode } from "../work/why_node";
import "./runs.css";

export function WhyPage() {
  const { subject } = useParams({ from: "/why/$subject" });
  const why = useQuery(ask.why(subject));
  const job = why.data && "dag_name" in why.data ? why.data : null;
  return (
    <Page
      title={`Why ${subject}`}
      doc="monitoring"
      actions={
        job && (
          <>
            <Link className="button" to="/runs/" search={{ dag: job.dag_name, job: job.job_name }}>
              Its tasks
            </Link>
            {job.task_id === null && (
              <PauseButton dag={job.dag_name} job={job.job_name} queue={job.queue} />
            )}
          </>
        )
      }
    >
      <div className="grid side-right">
        <Card>
          <WhyNode subject={subject} root />
        </Card>
        <div className="grid">
          {job?.queue && <Queue queue={job.queue} />}
          {job && job.outputs.length > 0 && (
            <Card title="Writes">
              <ul className="list">
                {job.outputs.map((each) => (
                  <li key={each.dataset_uuid} className="row">
                    <Link
                      to="/datasets/$dataset/"
                      params={{ dataset: each.dataset }}
                      className="grow wrap"
                    >
                      {each.dataset}
                    </Link>
                    <span className="faint">
                      <Ago at={each.recorded_at} />
                    </span>
                  </li>
                ))}
              </ul>
            </Card>
          )}
        </div>
      </div>
    </Page>
  );
}

function PauseButton({
  dag,
  job,
  queue,
}: {
  dag: string;
  job: string;
  queue: S<"JobQueue"> | null;
}) {
  const client = useQueryClient();
  const paused = queue?.holds.some((hold) => hold.cause === "user") ?? false;
  const act = useMutation({
    mutationFn: () =>
      paused
        ? post("/v1/jobs/{dag_name}/{job_name}/resume", { path: { dag_name: dag, job_name: job } })
        : post("/v1/jobs/{dag_name}/{job_name}/pause", {
            path: { dag_name: dag, job_name: job },
            body: { reason: null },
          }),
    onSuccess: () => say(paused ? "The job goes on." : "The job starts no more tasks."),
    onError: complain,
    onSettled: () => void client.invalidateQueries(),
  });
  return (
    <Button icon={paused ? "play" : "pause"} disabled={act.isPending} onClick={() => act.mutate()}>
      {paused ? "Resume the job" : "Pause the job"}
    </Button>
  );
}

function Queue({ queue }: { queue: S<"JobQueue"> }) {
  return (
    <Card title="Its queue">
      <dl className="facts">
        <dt>Ready</dt>
        <dd>{count(queue.ready)}</dd>
        <dt>Running</dt>
        <dd>
          {count(queue.running)}
          {queue.max_concurrency !== null && ` of ${count(queue.max_concurrency)}`}
        </dd>
        <dt>Will run again</dt>
        <dd>{count(queue.retrying)}</dd>
        <dt>Held back</dt>
        <dd>{count(queue.deferred)}</dd>
        <dt>Oldest waits</dt>
        <dd>{queue.oldest_age_s === null ? "–" : duration(queue.oldest_age_s)}</dd>
        {queue.holds.map((hold, index) => (
          <div key={index} style={{ display: "contents" }}>
            <dt>On hold</dt>
            <dd>
              {hold.reason} ({hold.cause}, <Ago at={hold.since} />)
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
