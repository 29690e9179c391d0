import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import { asProblem, get, post } from "../api/client";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import type { YamlHandle } from "../editor/yaml_editor";
import { Page } from "../shell/page";
import { Ago, Bar, Button, Card, Empty, Skeleton } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { clock, count, plural } from "../ui/format";
import { Loaded, ProblemBox } from "../ui/problem";
import { State } from "../ui/state";
import { say } from "../ui/toast";
import { PlanView } from "../work/plan_view";
import "./deploy.css";

const YamlEditor = lazy(() => import("../editor/yaml_editor"));
const NEW = "+new";

export function DeployPage() {
  const { dag } = useSearch({ from: "/deploy" });
  const navigate = useNavigate({ from: "/deploy" });
  const dags = useQuery(ask.dags());
  const chosen = dag ?? dags.data?.dags[0]?.dag_name;
  const go = (next: string) =>
    void navigate({ to: "/deploy/", search: { dag: next }, replace: true });
  return (
    <Page
      title="Deploy"
      doc="versions"
      actions={
        <Button icon="plus" onClick={() => go(NEW)}>
          New DAG
        </Button>
      }
    >
      <Loaded query={dags} lines={8}>
        {(data) => (
          <div className="grid">
            {data.dags.length === 0 && chosen !== NEW && (
              <Card>
                <Empty
                  title="No DAG is deployed"
                  command="trace deploy src/trace_platform/examples/chain.yaml"
                >
                  A DAG is a YAML file: jobs, and what they read. Deploy one from the command line,
                  or paste one under New DAG.
                </Empty>
              </Card>
            )}
            {data.dags.length > 0 && (
              <nav className="tabs" aria-label="DAGs">
                {data.dags.map((each) => (
                  <button
                    key={each.dag_name}
                    type="button"
                    className={each.dag_name === chosen ? "here" : ""}
                    aria-current={each.dag_name === chosen ? "page" : undefined}
                    onClick={() => go(each.dag_name)}
                  >
                    {each.dag_name}
                  </button>
                ))}
                {chosen === NEW && (
                  <button type="button" className="here" aria-current="page">
                    New DAG
                  </button>
                )}
              </nav>
            )}
            {chosen === NEW ? (
              <Edit key={NEW} name={null} before={null} onDeployed={go} />
            ) : (
              data.dags
                .filter((each) => each.dag_name === chosen)
                .map((each) => <OneDag key={each.dag_name} dag={each} onDeployed={go} />)
            )}
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function OneDag({ dag, onDeployed }: { dag: S<"DagSummary">; onDeployed: (dag: string) => void }) {
  const version = useQuery(ask.dagVersion(dag.dag_name, dag.dag_version));
  return (
    <>
      <Card
        title={
          <span className="row">
            {dag.dag_name} <State state={dag.state} />
          </span>
        }
        aside={
          <>
            <Link to="/graph/" search={{ dag: dag.dag_name }}>
              Graph
            </Link>
            <Link to="/runs/" search={{ dag: dag.dag_name }}>
              Runs
            </Link>
          </>
        }
      >
        <p className="soft">
          {plural(dag.jobs, "job")}, publishes {dag.datasets.join(", ") || "nothing"}; version{" "}
          <code>{dag.dag_version.slice(0, 8)}</code>
          {dag.activated_at && (
            <>
              {" "}
              since {clock(dag.activated_at)} (<Ago at={dag.activated_at} />)
            </>
          )}
          {dag.paused > 0 && (
            <span className="warn-text"> · {plural(dag.paused, "job")} paused</span>
          )}
        </p>
      </Card>
      <Loaded query={version} lines={8}>
        {(data) => (
          <Edit
            key={data.dag_version}
            name={dag.dag_name}
            before={data.yaml}
            onDeployed={onDeployed}
          />
        )}
      </Loaded>
      <History dag={dag.dag_name} />
    </>
  );
}

/** The file, what an edit of it would do, and doing it. */
function Edit({
  name,
  before,
  onDeployed,
}: {
  name: string | null;
  before: string | null;
  onDeployed: (dag: string) => void;
}) {
  const client = useQueryClient();
  const editor = useRef<YamlHandle>(null);
  const [yaml, setYaml] = useState(before ?? "");
  const file = `${name ?? "new"}.yaml`;
  const plan = useMutation({
    mutationFn: () => post("/v1/plans", { body: { yaml, file, code: {} } }),
    onSuccess: () => editor.current?.mark([]),
    onError: (error) => editor.current?.mark(mistakesOf(error)),
  });
  const deploy = useMutation({
    mutationFn: () => post("/v1/dags", { body: { yaml, file, code: {} } }),
    onSuccess: (done) => {
      say(
        done.status === "CutOver"
          ? `${done.dag_name} is active.`
          : done.status === "Building"
            ? `${done.dag_name} is being built; the version before serves until it is there.`
            : "This version is active already.",
      );
      plan.reset();
      void client.invalidateQueries();
      onDeployed(done.dag_name);
    },
  });
  return (
    <div className="grid two">
      <Card
        title={before === null ? "A new DAG file" : "Its file"}
        aside={
          before !== null && yaml !== before
            ? "edited; what differs is marked"
            : before === null
              ? null
              : "as it is active"
        }
      >
        <div className="yaml-box">
          <Suspense fallback={<Skeleton lines={10} />}>
            <YamlEditor
              ref={editor}
              value={yaml}
              before={before}
              onChange={(next) => {
                setYaml(next);
                plan.reset();
                deploy.reset();
              }}
            />
          </Suspense>
        </div>
      </Card>
      <Card
        title="Plan"
        aside={
          <>
            <Button disabled={yaml.trim() === "" || plan.isPending} onClick={() => plan.mutate()}>
              {plan.isPending ? "Looking…" : "Plan"}
            </Button>
            <Button
              look="main"
              disabled={!plan.data || deploy.isPending || yaml === before}
              onClick={() => deploy.mutate()}
            >
              {deploy.isPending ? "Deploying…" : "Deploy"}
            </Button>
          </>
        }
      >
        <div className="stack">
          {plan.isError && <ProblemBox error={plan.error} />}
          {deploy.isError && <ProblemBox error={deploy.error} />}
          {plan.data ? (
            <PlanView plan={plan.data} />
          ) : (
            !plan.isError && (
              <p className="faint">
                Edit the file and press Plan: it shows what would be built anew, why, and about how
                long that takes. Nothing happens before Deploy.
              </p>
            )
          )}
        </div>
      </Card>
    </div>
  );
}

/** Errors of a DAG file begin with its name, line and column. */
function mistakesOf(error: unknown): { line: number; text: string }[] {
  const { facts, message } = asProblem(error);
  const told = Array.isArray(facts.errors) ? facts.errors : [];
  const found = told.flatMap((each: unknown) => {
    if (typeof each === "object" && each !== null && "line" in each) {
      const { line, message: text } = each as { line: unknown; message?: unknown };
      return [{ line: Number(line), text: typeof text === "string" ? text : message }];
    }
    const place = /:(\d+)(?::\d+)?:\s*(.*)/.exec(String(each));
    return place ? [{ line: Number(place[1]), text: place[2] ?? "" }] : [];
  });
  if (found.length > 0) return found;
  const place = /(?:line |:)(\d+)/.exec(message);
  return place ? [{ line: Number(place[1]), text: message }] : [];
}

function History({ dag }: { dag: string }) {
  const deploys = useQuery(ask.deploys(dag));
  const versions = useQuery(ask.dagVersions(dag));
  const [back, setBack] = useState<string | null>(null);
  const of = (each: { to_version: string | null }) => each.to_version ?? "";
  const told = deploys.data?.deploys ?? [];
  const served = new Set(told.filter((each) => each.status === "CutOver").map(of));
  const building = new Set(told.filter((each) => each.status === "Building").map(of));
  // Nothing can be rolled back to what never served. Of versions older than the list nobody knows.
  const neverServed = new Set(told.map(of).filter((version) => !served.has(version)));
  return (
    <div className="grid two">
      <Card title="Deploys">
        <Loaded query={deploys}>
          {(data) => (
            <ul className="list">
              {data.deploys.map((each) => (
                <li key={each.deploy_id}>
                  <div className="deploy-row">
                    <State state={each.status} />
                    <span>{each.kind}</span>
                    <code>
                      {each.from_version?.slice(0, 8) ?? "nothing"} →{" "}
                      {each.to_version?.slice(0, 8) ?? "nothing"}
                    </code>
                    <span className="grow" />
                    <span className="faint">
                      <Ago at={each.ended_at ?? each.started_at} />
                    </span>
                  </div>
                  {each.error && <p className="bad-text wrap">{each.error}</p>}
                  {each.status === "Building" && <Building progress={each.progress ?? []} />}
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </Card>
      <Card title="Versions">
        <Loaded query={versions}>
          {(data) => (
            <ul className="list">
              {data.versions.map((each) => (
                <li key={each.dag_version} className="deploy-row">
                  <code>{each.dag_version.slice(0, 8)}</code>
                  <span className="faint">{clock(each.created_at)}</span>
                  <span className="grow" />
                  {each.active ? (
                    <State state="Active" label="active" />
                  ) : each.purged ? (
                    <span className="faint">its data was purged</span>
                  ) : building.has(each.dag_version) ? (
                    <State state="Building" label="being built" />
                  ) : neverServed.has(each.dag_version) ? (
                    <span className="faint">never served</span>
                  ) : (
                    <Button onClick={() => setBack(each.dag_version)}>Roll back to it</Button>
                  )}
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </Card>
      {back && <RollbackDialog dag={dag} version={back} onClose={() => setBack(null)} />}
    </div>
  );
}

function Building({ progress }: { progress: S<"DeployProgress">[] }) {
  return (
    <ul className="stack" style={{ marginTop: 6 }}>
      {progress.map((each) => {
        const said = `${each.job}: ${count(each.partitions)} of about ${count(each.before)} partitions, ${plural(each.tasks, "task")} left`;
        return (
          <li key={each.job} className="row" style={{ flexWrap: "nowrap" }}>
            <span className="mono clip" style={{ width: 130 }}>
              {each.job}
            </span>
            <span className="grow">
              <Bar
                label={said}
                parts={[
                  { tone: "busy", value: each.partitions },
                  { tone: "rest", value: Math.max(each.before - each.partitions, each.tasks) },
                ]}
              />
            </span>
            <span className="faint nowrap">{plural(each.partitions, "partition")}</span>
          </li>
        );
      })}
    </ul>
  );
}

function RollbackDialog({
  dag,
  version,
  onClose,
}: {
  dag: string;
  version: string;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const plan = useQuery({
    queryKey: ["rollback", dag, version],
    queryFn: () =>
      get("/v1/dags/{dag_name}/rollback", {
        path: { dag_name: dag },
        query: { to_version: version },
      }),
  });
  const act = useMutation({
    mutationFn: () =>
      post("/v1/dags/{dag_name}/rollback", {
        path: { dag_name: dag },
        body: { to_version: version, instead_of: plan.data?.instead_of ?? null },
      }),
    onSuccess: () => {
      say(`${dag} is at ${version.slice(0, 8)} again.`);
      // Not what this dialog asked: there is nothing to roll back to any more.
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "rollback" });
      onClose();
    },
  });
  return (
    <Dialog title={`Roll ${dag} back`} onClose={onClose}>
      <Loaded query={plan}>
        {(data) => (
          <div className="stack">
            <dl className="facts">
              <dt>Active now</dt>
              <dd>
                <code>{data.instead_of?.slice(0, 8) ?? "none"}</code>
              </dd>
              <dt>Active then</dt>
              <dd>
                <code>{data.to_version?.slice(0, 8) ?? "none"}</code>
              </dd>
              <dt>Names that go</dt>
              <dd>{(data.unpublishes ?? []).join(", ") || "none"}</dd>
              <dt>Read by</dt>
              <dd>
                {(data.readers ?? [])
                  .map((each) => `${each.dag_name}.${each.job_name}`)
                  .join(", ") || "nobody"}
              </dd>
            </dl>
            <p className="soft">One transaction: readers see the one or the other, whole.</p>
            {act.isError && <ProblemBox error={act.error} />}
            <div className="actions">
              <Button onClick={onClose}>Close</Button>
              <Button look="danger" disabled={act.isPending} onClick={() => act.mutate()}>
                Roll back
              </Button>
            </div>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}
