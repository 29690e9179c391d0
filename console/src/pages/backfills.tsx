import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { BackfillDialog } from "../actions/backfill_dialog";
import { post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Bar, Button, Card, Empty } from "../ui/basics";
import { count, plural } from "../ui/format";
import { Loaded } from "../ui/problem";
import { State } from "../ui/state";
import { complain } from "../ui/toast";
import "./deploy.css";

export function Backfills() {
  const backfills = useQuery(ask.backfills());
  const [asking, setAsking] = useState(false);
  return (
    <Page
      title="Backfills"
      doc="backfill"
      actions={
        <Button icon="plus" look="main" onClick={() => setAsking(true)}>
          New backfill
        </Button>
      }
    >
      <Loaded query={backfills} lines={6}>
        {(data) =>
          data.backfills.length === 0 ? (
            <Card>
              <Empty
                title="No backfill was started yet"
                command="trace backfill chain.ingest --from 0 --to 999"
              >
                A backfill has a job do a range of blocks, as many tasks at once as you allow. New
                backfill shows first what it would do.
              </Empty>
            </Card>
          ) : (
            <div className="grid">
              {data.backfills.map((each) => (
                <Backfill key={each.backfill_id} backfill={each} />
              ))}
            </div>
          )
        }
      </Loaded>
      {asking && <BackfillDialog onClose={() => setAsking(false)} />}
    </Page>
  );
}

function Backfill({ backfill }: { backfill: S<"BackfillStatus"> }) {
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  const detail = useQuery({ ...ask.backfill(backfill.backfill_id), enabled: open });
  const act = useMutation({
    mutationFn: (what: "pause" | "resume" | "cancel") => {
      const path = { backfill_id: backfill.backfill_id };
      if (what === "pause") return post("/v1/backfills/{backfill_id}/pause", { path });
      if (what === "resume") return post("/v1/backfills/{backfill_id}/resume", { path });
      return post("/v1/backfills/{backfill_id}/cancel", { path });
    },
    onError: complain,
    onSettled: () => void client.invalidateQueries({ queryKey: ["backfills"] }),
  });
  const { done, failed, canceled, in_flight: going, total } = backfill;
  const left = Math.max(0, total - done - failed - canceled - going);
  const alive = backfill.status === "Running" || backfill.status === "Paused";
  return (
    <Card
      title={
        <Link to="/why/$subject/" params={{ subject: `${backfill.dag_name}.${backfill.job_name}` }}>
          {backfill.dag_name}.{backfill.job_name}
        </Link>
      }
      aside={
        <>
          <State state={backfill.status} />
          {backfill.status === "Running" && (
            <Button onClick={() => act.mutate("pause")}>Pause</Button>
          )}
          {backfill.status === "Paused" && (
            <Button onClick={() => act.mutate("resume")}>Resume</Button>
          )}
          {alive && (
            <Button look="danger" onClick={() => act.mutate("cancel")}>
              Cancel
            </Button>
          )}
        </>
      }
    >
      <div className="stack">
        <Bar
          label={`${done} done, ${failed} failed, ${canceled} canceled, ${going} under way, ${left} to come`}
          parts={[
            { tone: "good", value: done },
            { tone: "bad", value: failed },
            { tone: "off", value: canceled },
            { tone: "busy", value: going },
            { tone: "rest", value: left },
          ]}
        />
        <div className="deploy-row soft">
          <span>
            blocks {count(backfill.start)} to {count(backfill.end)}
          </span>
          <span>
            {count(done)} of {plural(total, "task")} done
          </span>
          <span>
            {count(going)} under way, at most {count(backfill.max_in_flight)}
          </span>
          {failed > 0 && <span className="bad-text">{count(failed)} failed</span>}
          {backfill.force && <span>also what was up to date</span>}
          <span className="grow" />
          <span className="faint">
            <Ago at={backfill.ended_at ?? backfill.created_at} />
          </span>
        </div>
        {backfill.ended_because && <p className="soft wrap">{backfill.ended_because}</p>}
        {(failed > 0 || canceled > 0) && (
          <div>
            <button
              type="button"
              className="link"
              aria-expanded={open}
              onClick={() => setOpen(!open)}
            >
              {open ? "Hide" : "Show"} what failed
            </button>
            {open && (
              <Loaded query={detail}>
                {(data) => (
                  <ul className="list" style={{ marginTop: 8 }}>
                    {data.failed_tasks.map((task) => (
                      <li key={task.task_id} className="row">
                        <State state={task.status} />
                        <Link to="/tasks/$task/" params={{ task: task.task_id }} className="mono">
                          {task.scope}
                        </Link>
                        <span className="soft grow clip" title={task.error_message ?? ""}>
                          {task.error_message}
                        </span>
                      </li>
                    ))}
                  </ul>
                )}
              </Loaded>
            )}
          </div>
        )}
      </div>
    </Card>
  );
}
