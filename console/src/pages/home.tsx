import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Bar, Card, Command, Empty, Figure } from "../ui/basics";
import { ago, count, plural, short } from "../ui/format";
import { Loaded } from "../ui/problem";
import { Glyph, State, toneOf } from "../ui/state";
import "./home.css";

export function Home() {
  const sources = useQuery(ask.sources());
  const datasets = useQuery(ask.datasets());
  const dags = useQuery(ask.dags());
  const history = useQuery(ask.ownQueries());
  const steps = firstSteps(
    dags.data?.dags ?? [],
    datasets.data?.datasets ?? [],
    history.data?.queries ?? [],
  );
  const known = Boolean(dags.data && datasets.data && history.data);
  const begun = steps.filter((step) => step.done).length;
  return (
    <Page title="Home" doc="console">
      <div className="grid side-right">
        <div className="grid">
          <Card title="Sources" aside={<Link to="/chains/">Chains</Link>}>
            <Loaded query={sources}>{(data) => <Heads sources={data.sources} />}</Loaded>
          </Card>
          <Card
            title="Datasets"
            aside={
              <>
                {datasets.data && <Freshness datasets={datasets.data.datasets} />}
                <Link to="/catalogue/">Catalogue</Link>
              </>
            }
          >
            <Loaded query={datasets}>{(data) => <Datasets datasets={data.datasets} />}</Loaded>
          </Card>
          <Work />
        </div>
        <div className="grid">
          {known && begun < steps.length && (
            <Card title="First steps" aside={`${begun} of ${steps.length}`}>
              <FirstSteps steps={steps} />
            </Card>
          )}
          <Firing />
        </div>
      </div>
    </Page>
  );
}

function Heads({ sources }: { sources: S<"SourceStatus">[] }) {
  if (sources.length === 0) {
    return (
      <Empty
        title="No source is deployed"
        command="trace deploy src/trace_platform/examples/chain.yaml"
      >
        A source tells of new blocks. The first DAG brings one.
      </Empty>
    );
  }
  return (
    <div className="heads">
      {sources.map((source) => (
        <div key={`${source.dag_name}.${source.job_name}`} className="head-row">
          <div className="clip">
            <Link to="/why/$subject/" params={{ subject: `${source.dag_name}.${source.job_name}` }}>
              {source.dag_name}.{source.job_name}
            </Link>
            <div>
              <State state={source.state} />{" "}
              <span className="faint">{source.kind.replace("_", " ")}</span>
            </div>
          </div>
          {source.kind === "cron" && (
            <Figure label="Last tick">
              <Ago at={source.last_tick} />
            </Figure>
          )}
          {source.kind === "always_on" && (
            <>
              <Figure label="Newest">{count(source.last)}</Figure>
              <Figure label="Behind the head">{lag(source)}</Figure>
            </>
          )}
          <div className="faint clip head-note" title={source.stuck ?? source.error_message ?? ""}>
            {source.stuck ?? source.error_message ?? lastEvent(source)}
          </div>
        </div>
      ))}
    </div>
  );
}

function lag({ head, last }: S<"SourceStatus">): string {
  if (typeof head !== "number" || typeof last !== "number") return "–";
  return plural(Math.max(0, head - last), "block");
}

function lastEvent(source: S<"SourceStatus">): string {
  const age = source.last_event_age_s;
  if (age !== null && age !== undefined) return `newest event ${ago(age)}`;
  return source.kind === "manual"
    ? `trace sources trigger ${source.dag_name} ${source.job_name} --from 0 --to 999`
    : "no event yet";
}

function Freshness({ datasets }: { datasets: S<"DatasetEntry">[] }) {
  const of = (state: string) => datasets.filter((each) => each.state === state).length;
  const parts = [
    { tone: "good", value: of("fresh") },
    { tone: "warn", value: of("stale") },
    { tone: "bad", value: of("blocked") },
  ];
  return (
    <>
      <span>
        {of("fresh")} of {datasets.length} fresh
      </span>
      <Bar
        parts={parts}
        label={`${of("fresh")} fresh, ${of("stale")} stale, ${of("blocked")} blocked`}
      />
    </>
  );
}

function Datasets({ datasets }: { datasets: S<"DatasetEntry">[] }) {
  if (datasets.length === 0) {
    return (
      <Empty title="Nothing is published yet" command="trace deploy mainnet.yaml">
        A DAG file publishes what its jobs make, under names that can be queried.
      </Empty>
    );
  }
  const order = { blocked: 0, stale: 1, fresh: 2 };
  const sorted = [...datasets].sort(
    (a, b) => order[a.state] - order[b.state] || a.dataset.localeCompare(b.dataset),
  );
  return (
    <div className="fresh-strip">
      {sorted.slice(0, 60).map((each) => (
        <Link
          key={each.dataset_uuid}
          to="/datasets/$dataset/"
          params={{ dataset: each.dataset }}
          title={each.state}
        >
          <Glyph tone={toneOf(each.state)} />
          <span className="clip">{each.dataset}</span>
          <span className="faint">{short(each.rows)} rows</span>
          {each.newest_at && (
            <span className="faint only-wide">
              <Ago at={each.newest_at} />
            </span>
          )}
        </Link>
      ))}
      {sorted.length > 60 && <Link to="/catalogue/">{sorted.length - 60} more</Link>}
    </div>
  );
}

function Work() {
  const queues = useQuery(ask.queues());
  const running = useQuery(ask.tasks({}, 8));
  return (
    <Card
      title="Work"
      aside={
        <>
          {queues.data && (
            <span>
              {plural(
                queues.data.queues.reduce((sum, each) => sum + each.running, 0),
                "task",
              )}{" "}
              running,{" "}
              {count(queues.data.queues.reduce((sum, each) => sum + each.ready + each.deferred, 0))}{" "}
              waiting, {plural(queues.data.workers.length, "worker")}
            </span>
          )}
          <Link to="/runs/">Runs</Link>
        </>
      }
    >
      <Loaded query={running}>
        {(data) =>
          data.tasks.length === 0 ? (
            <Empty title="No task has been made yet">
              Tasks appear as soon as a source emits: trigger a manual one, or deploy one that
              follows a chain.
            </Empty>
          ) : (
            <ul className="list">
              {data.tasks.map((task) => (
                <li key={task.task_id} className="row">
                  <State state={task.status} />
                  <Link to="/tasks/$task/" params={{ task: task.task_id }} className="clip">
                    {task.dag_name}.{task.job_name}
                  </Link>
                  <span className="faint grow clip">{task.error_message ?? task.note ?? ""}</span>
                  <span className="faint">
                    <Ago at={task.completed_at ?? task.started_at ?? task.created_at} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Firing() {
  const health = useQuery(ask.health());
  const alerts = useQuery(ask.alerts(true));
  return (
    <Card title="What fires" aside={<Link to="/health/">Health</Link>}>
      <Loaded query={health}>
        {(data) => {
          const firing = data.rules.filter((rule) => rule.firing);
          const standing = alerts.data?.alerts ?? [];
          if (firing.length === 0 && standing.length === 0) {
            return <p className="faint">Nothing. {data.rules.length} rules are watched.</p>;
          }
          return (
            <ul className="list">
              {firing.map((rule) => (
                <li key={rule.code}>
                  <State state="firing" label={rule.code.replaceAll("_", " ")} />
                  <p className="soft wrap">{rule.text}</p>
                </li>
              ))}
              {standing.slice(0, 8).map((alert) => (
                <li key={alert.alert_id}>
                  <State state={alert.severity} label={alert.code.replaceAll("_", " ")} />{" "}
                  <span className="faint">
                    <Ago at={alert.created_at} />
                  </span>
                  <p className="soft wrap">{alert.message}</p>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Card>
  );
}

interface Step {
  done: boolean;
  text: string;
  command: string;
}

function firstSteps(
  dags: S<"DagSummary">[],
  datasets: S<"DatasetEntry">[],
  queries: S<"QueryRecord">[],
): Step[] {
  const manual = dags.find((dag) => dag.sources > 0);
  const source = manual
    ? `${manual.dag_name} ${manual.job_names[0] ?? "request"}`
    : "chain request";
  const name = datasets.find((each) => each.name !== null)?.name ?? "blocks";
  return [
    {
      done: dags.length > 0,
      text: "Deploy a DAG: what is made of what, in a file.",
      command: "trace deploy src/trace_platform/examples/chain.yaml",
    },
    {
      done: datasets.some((each) => each.rows > 0),
      text: "Bring the first rows.",
      command: `trace sources trigger ${source} --from 0 --to 999 --wait`,
    },
    {
      done: queries.length > 0,
      text: "Ask them, here under Query or at the command line.",
      command: `trace query "select count(*) from ${name}"`,
    },
    {
      done: dags.length > 1,
      text: "Follow a chain at its tip, through reorgs.",
      command: "trace deploy src/trace_platform/examples/follow.yaml",
    },
  ];
}

function FirstSteps({ steps }: { steps: Step[] }) {
  return (
    <ol className="first-steps">
      {steps.map((step, index) => (
        <li key={step.text} className={step.done ? "done" : ""}>
          <span className="dot" aria-label={step.done ? "done" : "to do"} role="img">
            {step.done ? "✓" : index + 1}
          </span>
          <div>
            <p>{step.text}</p>
            {!step.done && <Command>{step.command}</Command>}
          </div>
        </li>
      ))}
    </ol>
  );
}
