import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Button, Card, Empty, Field, Tag } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { clock, count, duration, plural } from "../ui/format";
import { Loaded, ProblemBox } from "../ui/problem";
import { Glyph, State } from "../ui/state";
import { complain, say } from "../ui/toast";
import { MetricCharts } from "../work/metric_charts";
import "./deploy.css";

export function HealthPage() {
  return (
    <Page title="Workers & health" doc="monitoring">
      <div className="grid">
        <div className="grid two">
          <Rules />
          <Alerts />
        </div>
        <Queues />
        <Card title="Figures" aside="since this page was opened">
          <MetricCharts />
        </Card>
        <DeadLetters />
      </div>
    </Page>
  );
}

function Rules() {
  const health = useQuery(ask.health());
  return (
    <Card title="Health rules">
      <Loaded query={health}>
        {(data) => (
          <ul className="list">
            {[...data.rules]
              .sort((a, b) => Number(b.firing) - Number(a.firing))
              .map((rule) => (
                <li key={rule.code} className="rule">
                  <span className="state">
                    <Glyph tone={rule.firing ? "bad" : "good"} />
                    <span>{rule.code.replaceAll("_", " ")}</span>
                    {rule.firing && <span className="hidden">fires</span>}
                  </span>
                  <span className={rule.firing ? "wrap" : "soft wrap"}>{rule.text}</span>
                </li>
              ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

function Alerts() {
  const [all, setAll] = useState(false);
  const [known, setKnown] = useState<S<"Alert"> | null>(null);
  const alerts = useQuery(ask.alerts(!all));
  return (
    <Card
      title="Alerts"
      aside={
        <label className="row">
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
          Also what is over or acknowledged
        </label>
      }
    >
      <Loaded query={alerts}>
        {(data) =>
          data.alerts.length === 0 ? (
            <p className="faint">
              {all ? "There was never one." : "None stands: nothing needs anybody at the moment."}
            </p>
          ) : (
            <ul className="list">
              {data.alerts.map((alert) => (
                <li key={alert.alert_id}>
                  <div className="row">
                    <State state={alert.severity} label={alert.code.replaceAll("_", " ")} />
                    {alert.dag && <Tag>{alert.job ? `${alert.dag}.${alert.job}` : alert.dag}</Tag>}
                    <span className="grow" />
                    <span className="faint">
                      <Ago at={alert.created_at} />
                    </span>
                    {alert.stands && <Button onClick={() => setKnown(alert)}>Acknowledge</Button>}
                  </div>
                  <p className="soft wrap">{alert.message}</p>
                  {alert.acknowledged_at && (
                    <p className="faint wrap">
                      acknowledged by {alert.acknowledged_by}, {clock(alert.acknowledged_at)}
                      {alert.acknowledged_note && `: ${alert.acknowledged_note}`}
                    </p>
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {known && <AcknowledgeDialog alert={known} onClose={() => setKnown(null)} />}
    </Card>
  );
}

function AcknowledgeDialog({ alert, onClose }: { alert: S<"Alert">; onClose: () => void }) {
  const client = useQueryClient();
  const session = useQuery(ask.session());
  const [note, setNote] = useState("");
  const act = useMutation({
    mutationFn: () =>
      post("/v1/alerts/acknowledge", {
        body: {
          alert_ids: [alert.alert_id],
          by: session.data?.user ?? "owner",
          note: note || null,
        },
      }),
    onSuccess: () => {
      say("Acknowledged.");
      void client.invalidateQueries({ queryKey: ["alerts"] });
      void client.invalidateQueries({ queryKey: ["health"] });
      onClose();
    },
  });
  return (
    <Dialog title="Acknowledge an alert" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          act.mutate();
        }}
      >
        <p className="wrap">{alert.message}</p>
        <Field label="What there is to say about it">
          <textarea rows={2} value={note} onChange={(event) => setNote(event.target.value)} />
        </Field>
        {act.isError && <ProblemBox error={act.error} />}
        <div className="actions">
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="main" disabled={act.isPending}>
            Acknowledge
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Queues() {
  const queues = useQuery(ask.queues());
  return (
    <Loaded query={queues} lines={6}>
      {(data) => (
        <div className="grid two">
          <Card title="Workers" aside={plural(data.workers.length, "worker")} className="flush">
            {data.workers.length === 0 ? (
              <Empty title="No worker is alive" command="trace serve worker">
                Nothing runs without one; trace up keeps one of its own.
              </Empty>
            ) : (
              <div className="table-scroll" tabIndex={0} role="region" aria-label="Workers">
                <table className="table">
                  <thead>
                    <tr>
                      <th>Worker</th>
                      <th>Runtime</th>
                      <th className="right">Tasks</th>
                      <th className="right only-wide">Sources</th>
                      <th className="right">Seen</th>
                    </tr>
                  </thead>
                  <tbody>
                    {data.workers.map((each) => (
                      <tr key={each.worker_id}>
                        <td className="mono grow" title={each.worker_id}>
                          {each.worker_id}
                        </td>
                        <td>{each.runtime}</td>
                        <td className="right">
                          {each.running} of {each.slots}
                        </td>
                        <td className="right only-wide">
                          {each.running_sources} of {each.source_slots}
                        </td>
                        <td className="right">{duration(each.seen_s)} ago</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </Card>
          <Card
            title="Queues"
            aside="jobs that have something to do, or are on hold"
            className="flush"
          >
            {data.queues.length === 0 ? (
              <Empty title="Nothing waits, nothing runs" />
            ) : (
              <div className="table-scroll" tabIndex={0} role="region" aria-label="Queues">
                <table className="table">
                  <thead>
                    <tr>
                      <th>Job</th>
                      <th className="right">Ready</th>
                      <th className="right">Running</th>
                      <th className="right only-wide">Retrying</th>
                      <th className="right only-wide">Oldest</th>
                      <th>Held</th>
                    </tr>
                  </thead>
                  <tbody>
                    {data.queues.map((each) => {
                      const name = `${each.dag_name}.${each.job_name}`;
                      return (
                        <tr key={`${name} ${each.active}`}>
                          <td className="grow">
                            <Link to="/why/$subject/" params={{ subject: name }}>
                              {name}
                            </Link>
                          </td>
                          <td className="right">{count(each.ready)}</td>
                          <td className="right">
                            {count(each.running)}
                            {each.max_concurrency !== null && ` of ${each.max_concurrency}`}
                          </td>
                          <td className="right only-wide">{count(each.retrying)}</td>
                          <td className="right only-wide">
                            {each.oldest_age_s === null ? "–" : duration(each.oldest_age_s)}
                          </td>
                          <td>
                            {each.pressure && (
                              <span className="warn-text">backpressure: {each.pressure.mode} </span>
                            )}
                            {each.holds.map((hold) => hold.cause).join(", ")}
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              </div>
            )}
          </Card>
        </div>
      )}
    </Loaded>
  );
}

function DeadLetters() {
  const client = useQueryClient();
  const letters = useQuery(ask.deadLetters());
  const act = useMutation({
    mutationFn: ({ what, id }: { what: "resend" | "drop"; id: number }) =>
      post(what === "resend" ? "/v1/dead-letters/resend" : "/v1/dead-letters/drop", {
        body: { ids: [id] },
      }),
    onError: complain,
    onSettled: () => void client.invalidateQueries({ queryKey: ["dead-letters"] }),
  });
  if (!letters.data || letters.data.total === 0) return null;
  return (
    <Card title="Dead letters" aside="messages that nobody could handle">
      <ul className="list">
        {letters.data.dead_letters.map((each) => (
          <li key={each.id} className="row">
            <span className="mono">{each.queue}</span>
            <span>{each.dag_name ? `${each.dag_name}.${each.job_name}` : ""}</span>
            <span className="faint">received {plural(each.receives, "time")}</span>
            <span className="grow" />
            <span className="faint">
              <Ago at={each.died_at} />
            </span>
            <Button
              disabled={act.isPending}
              onClick={() => act.mutate({ what: "resend", id: each.id })}
            >
              Send again
            </Button>
            <Button
              look="danger"
              disabled={act.isPending}
              onClick={() => act.mutate({ what: "drop", id: each.id })}
            >
              Drop
            </Button>
          </li>
        ))}
      </ul>
    </Card>
  );
}
