import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Fragment, useState, type ReactNode } from "react";
import { BackfillDialog } from "../actions/backfill_dialog";
import { InvalidateDialog } from "../actions/invalidate_dialog";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { PartitionMap, type Chosen, type Table } from "../band/partition_map";
import { Grid } from "../query/grid";
import { run } from "../query/result";
import { Page } from "../shell/page";
import { Ago, Button, Card, Empty, Field, Figure, Tag } from "../ui/basics";
import { bytes, clock, count, duration, plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { Loaded } from "../ui/problem";
import { State } from "../ui/state";
import { WhyNode } from "../work/why_node";
import "./dataset.css";
import "./query.css";
import "./runs.css";

const TABS = {
  schema: "Schema",
  why: "Why",
  checks: "Checks",
  generations: "Generations",
  preview: "Preview",
  readers: "Readers",
  events: "Events",
} as const;
type Tab = keyof typeof TABS;

interface Acting {
  what: "backfill" | "invalidate";
  chosen: Chosen;
}

export function DatasetPage() {
  const { dataset: name } = useParams({ from: "/datasets/$dataset" });
  const { tab: asked, at } = useSearch({ from: "/datasets/$dataset" });
  const navigate = useNavigate({ from: "/datasets/$dataset" });
  const detail = useQuery(ask.dataset(name));
  const [acting, setActing] = useState<Acting | null>(null);
  const tab: Tab = asked !== undefined && asked in TABS ? (asked as Tab) : "schema";
  const go = (search: { tab?: Tab | undefined; at?: string | undefined }) =>
    void navigate({ to: "./", search: { tab: asked, at, ...search }, replace: true });
  return (
    <Page
      title={name}
      under={<Link to="/catalogue/">Catalogue</Link>}
      doc="datasets"
      actions={
        <>
          <Link className="button" to="/graph/" search={{ at: name }}>
            <Icon name="graph" size={14} /> Graph
          </Link>
          <Link
            className="button"
            to="/query/"
            search={{ sql: `select *\n  from ${name}\n limit 100` }}
          >
            <Icon name="query" size={14} /> Query
          </Link>
        </>
      }
    >
      <Loaded query={detail} lines={8}>
        {(data) => (
          <div className="grid">
            <Head data={data} />
            <Card
              title="Partitions"
              aside={
                at ? (
                  <>
                    of generation <code>{at.slice(0, 8)}</code>
                    <Button look="quiet" onClick={() => go({ at: undefined })}>
                      Current one
                    </Button>
                  </>
                ) : data.gap_count > 0 ? (
                  <span className="warn-text">{plural(data.gap_count, "gap")}</span>
                ) : (
                  plural(data.partitions, "partition")
                )
              }
            >
              <PartitionMap
                dataset={name}
                at={at ?? null}
                table={at === undefined ? tableOf(data) : null}
                none={noneOf(data)}
                actions={(chosen) => (
                  <>
                    <Button onClick={() => setActing({ what: "backfill", chosen })}>Backfill</Button>
                    <Button
                      look="danger"
                      onClick={() => setActing({ what: "invalidate", chosen })}
                    >
                      Invalidate
                    </Button>
                  </>
                )}
              />
            </Card>
            <OpenInvalidations dataset={name} />
            <div>
              <nav className="tabs" aria-label="Of the dataset">
                {(Object.keys(TABS) as Tab[]).map((each) => (
                  <button
                    key={each}
                    type="button"
                    className={each === tab ? "here" : ""}
                    aria-current={each === tab ? "page" : undefined}
                    onClick={() => go({ tab: each })}
                  >
                    {TABS[each]}
                  </button>
                ))}
              </nav>
              {tab === "schema" && <Schema data={data} />}
              {tab === "why" && (
                <Card>
                  <WhyNode subject={name} root />
                </Card>
              )}
              {tab === "checks" && <Checks name={name} />}
              {tab === "generations" && (
                <Generations name={name} at={at ?? null} onAt={(next) => go({ at: next })} />
              )}
              {tab === "preview" && (
                <Preview name={name} at={at ?? null} published={data.name !== null} />
              )}
              {tab === "readers" && <Readers data={data} />}
              {tab === "events" && <Events name={name} />}
            </div>
            {acting?.what === "backfill" && (
              <BackfillDialog
                producer={data.producer}
                start={acting.chosen.range.start}
                end={acting.chosen.range.end}
                onClose={() => setActing(null)}
              />
            )}
            {acting?.what === "invalidate" && (
              <InvalidateDialog
                dataset={data}
                start={acting.chosen.range.start}
                end={acting.chosen.range.end}
                partitions={acting.chosen.partitions}
                rows={acting.chosen.rows}
                onClose={() => setActing(null)}
              />
            )}
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function tableOf(data: S<"DatasetDetail">): Table | null {
  const { first_block: first, cursor: last, newest_at: newest } = data;
  if (data.table === null || first === null || last === null || newest === null) return null;
  return { first, last, rows: data.rows, at: newest };
}

function noneOf(data: S<"DatasetDetail">): string {
  if (data.table !== null) return "Its rows are in a table of Postgres, which holds none yet.";
  if (data.newest_at !== null) {
    return "It tells its readers of ranges and holds no rows of its own; Events lists them.";
  }
  return "They appear here as tasks commit them. Why there is none yet is under Why.";
}

function Head({ data }: { data: S<"DatasetDetail"> }) {
  const [dag = "", job = ""] = data.producer.split(".");
  return (
    <Card>
      {data.description && (
        <p className="soft wrap" style={{ marginBottom: 10 }}>
          {data.description}
        </p>
      )}
      {(data.owner || (data.tags ?? []).length > 0) && (
        <p className="row" style={{ marginBottom: 10 }}>
          {data.owner && (
            <span className="soft">
              owner{" "}
              <Link to="/catalogue/" search={{ owner: data.owner }}>
                {data.owner}
              </Link>
            </span>
          )}
          {data.tags?.map((tag) => (
            <Link key={tag} to="/catalogue/" search={{ tag }}>
              <Tag>{tag}</Tag>
            </Link>
          ))}
        </p>
      )}
      <div className="figures">
        <Figure label="State">
          <State state={data.state} />
        </Figure>
        <Figure label="Newest">
          <Ago at={data.newest_at} />
        </Figure>
        <Figure label="Rows">
          {data.rows_estimated ? "≈ " : ""}
          {count(data.rows)}
        </Figure>
        <Figure label="Size">{bytes(data.bytes)}</Figure>
        <Figure label="Blocks">
          {data.first_block === null
            ? "–"
            : `${count(data.first_block)} to ${count(data.cursor ?? data.last_block)}`}
        </Figure>
        <Figure label="Made by">
          <Link to="/runs/" search={{ dag, job }}>
            {data.producer}
          </Link>
        </Figure>
        <Figure label="Kept in">
          {data.storage}
          {data.cold ? " and files" : ""}
        </Figure>
      </div>
    </Card>
  );
}

function OpenInvalidations({ dataset }: { dataset: string }) {
  const open = useQuery(ask.invalidations(dataset, true));
  if (!open.data || open.data.invalidations.length === 0) return null;
  return (
    <Card title="Being done again">
      <ul className="list">
        {open.data.invalidations.map((each) => (
          <li key={each.invalidation_id} className="row">
            <State state={each.state} />
            <span>
              {each.start !== null
                ? `${count(each.start)} to ${count(each.end)}`
                : each.partition_key}
            </span>
            <span className="soft grow clip" title={each.reason}>
              {each.reason}
            </span>
            <span className="faint">
              {each.tasks_done} of {plural(each.tasks, "task")}
            </span>
            {each.cause_task_id && (
              <Link to="/tasks/$task/" params={{ task: each.cause_task_id }}>
                cause
              </Link>
            )}
            {each.failed_task_id && (
              <Link to="/tasks/$task/" params={{ task: each.failed_task_id }} className="bad-text">
                held by a failed task
              </Link>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Schema({ data }: { data: S<"DatasetDetail"> }) {
  const [open, setOpen] = useState<string | null>(null);
  if (data.columns === null) {
    return (
      <Card>
        <Empty title="Nobody has said the columns yet">
          They are known once something is committed, or when the DAG declares them.
        </Empty>
      </Card>
    );
  }
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return (
    <Card className="flush">
      {(data.misfits ?? []).map((each) => (
        <p key={each} className="problem">
          {each}
        </p>
      ))}
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Columns">
        <table className="table columns-table">
          <thead>
            <tr>
              <th>Column</th>
              <th>Type</th>
              <th className="only-wide">Null</th>
              <th className="only-wide">Description</th>
              <th>
                <span className="hidden">Lineage</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(data.columns).map(([name, said]) => (
              <Fragment key={name}>
                <tr>
                  <td className="mono">{name}</td>
                  <td className="mono soft">
                    {text(said.type)}
                    {said.declared && said.committed && said.declared !== said.committed ? (
                      <span className="warn-text"> declared {text(said.declared)}</span>
                    ) : null}
                  </td>
                  <td className="only-wide">{said.nullable === false ? "" : "may be null"}</td>
                  <td className="grow only-wide">
                    {data.pii.includes(name) && <Tag>personal</Tag>} {text(said.description)}
                  </td>
                  <td className="right">
                    <button
                      type="button"
                      className="link"
                      aria-expanded={open === name}
                      onClick={() => setOpen(open === name ? null : name)}
                    >
                      Lineage<span className="hidden"> of {name}</span>
                    </button>
                  </td>
                </tr>
                {open === name && (
                  <tr>
                    <td colSpan={5}>
                      <ColumnLineage dataset={data.dataset} column={name} />
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function ColumnLineage({ dataset, column }: { dataset: string; column: string }) {
  const lineage = useQuery(ask.columnLineage(dataset, column));
  return (
    <Loaded query={lineage} lines={2}>
      {(data) => {
        const from = data.edges.filter((edge) => edge.target === data.subject);
        const to = data.edges.filter((edge) => edge.source === data.subject);
        if (data.edges.length === 0) {
          return (
            <p className="faint wrap">
              No job has told where this column comes from, nor one that makes another of it.
            </p>
          );
        }
        return (
          <Flow
            before={from.map((edge) => edge.source)}
            name={data.subject}
            after={to.map((edge) => edge.target)}
            beforeNone="read from outside"
            afterNone="nothing is made of it"
          />
        );
      }}
    </Loaded>
  );
}

function Flow({
  before,
  name,
  after,
  beforeNone,
  afterNone,
  link,
}: {
  before: string[];
  name: string;
  after: string[];
  beforeNone: string;
  afterNone: string;
  link?: (name: string) => ReactNode;
}) {
  const shown = (names: string[], none: string) =>
    names.length === 0 ? (
      <span className="faint">{none}</span>
    ) : (
      <ul>
        {names.map((each) => (
          <li key={each} className="mono wrap">
            {link ? link(each) : each}
          </li>
        ))}
      </ul>
    );
  return (
    <div className="flow">
      {shown(before, beforeNone)}
      <span className="arrow" aria-hidden="true">
        →
      </span>
      <strong className="mono wrap">{name}</strong>
      <span className="arrow" aria-hidden="true">
        →
      </span>
      {shown(after, afterNone)}
    </div>
  );
}

function Checks({ name }: { name: string }) {
  const [failed, setFailed] = useState(false);
  const summary = useQuery(ask.checks(name));
  const results = useQuery(ask.checkResults(name, failed));
  return (
    <Loaded query={summary}>
      {(data) =>
        data.checks.length === 0 ? (
          <Card>
            <Empty title="No check looks at this dataset">
              A job can check what it writes before anybody reads it: checks in the DAG file, such
              as <code>{"checks: [{ kind: not_null, columns: [block_number] }]"}</code>.
            </Empty>
          </Card>
        ) : (
          <div className="grid">
            <Card title="Checks">
              <ul className="list">
                {data.checks.map((check) => (
                  <li key={check.name} className="row">
                    <State state={check.outcome} />
                    <strong>{check.name}</strong>
                    <span className="faint">{check.kind}</span>
                    <Tag>{check.on_failure}</Tag>
                    <span className="grow" />
                    <span className="faint">
                      {count(check.passed)} passed, {count(check.failed)} did not ·{" "}
                      <Ago at={check.checked_at} />
                    </span>
                  </li>
                ))}
              </ul>
            </Card>
            <Card
              title="Results"
              aside={
                <label className="row">
                  <input
                    type="checkbox"
                    checked={failed}
                    onChange={(event) => setFailed(event.target.checked)}
                  />
                  Only what did not pass
                </label>
              }
            >
              <Loaded query={results}>
                {(found) =>
                  found.results.length === 0 ? (
                    <p className="faint">{failed ? "All of them passed." : "No result yet."}</p>
                  ) : (
                    <ul className="list">
                      {found.results.map((result, index) => (
                        <CheckResult key={index} result={result} />
                      ))}
                    </ul>
                  )
                }
              </Loaded>
            </Card>
          </div>
        )
      }
    </Loaded>
  );
}

function CheckResult({ result }: { result: S<"CheckResult"> }) {
  const columns = Object.keys(result.sample[0] ?? {});
  return (
    <li>
      <div className="row">
        <State state={result.outcome} />
        <strong>{result.name}</strong>
        <span className="mono">{result.partition_key}</span>
        <span className="soft grow clip" title={result.message}>
          {result.message}
        </span>
        <Link to="/tasks/$task/" params={{ task: result.task_id }}>
          task
        </Link>
        <span className="faint">
          <Ago at={result.checked_at} />
        </span>
      </div>
      {columns.length > 0 && (
        <div
          className="table-scroll sample"
          tabIndex={0}
          role="region"
          aria-label="Rows that are wrong"
        >
          <table className="table">
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column}>
                    {column}
                    {result.masked.includes(column) && " (masked)"}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {result.sample.map((row, index) => (
                <tr key={index}>
                  {columns.map((column) => (
                    <td key={column} className="mono">
                      {row[column] ?? <span className="faint">NULL</span>}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </li>
  );
}

function Generations({
  name,
  at,
  onAt,
}: {
  name: string;
  at: string | null;
  onAt: (at: string | undefined) => void;
}) {
  const versions = useQuery(ask.datasetVersions(name));
  return (
    <Loaded query={versions}>
      {(data) => (
        <Card className="flush">
          <div className="table-scroll" tabIndex={0} role="region" aria-label="Generations">
            <table className="table">
              <thead>
                <tr>
                  <th>Generation</th>
                  <th>State</th>
                  <th className="right">Rows</th>
                  <th className="right only-wide">Size</th>
                  <th className="right only-wide">Partitions</th>
                  <th className="only-wide">Made</th>
                  <th>
                    <span className="hidden">Look at it</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.versions.map((each) => (
                  <tr key={each.dataset_version}>
                    <td className="mono">{each.dataset_version.slice(0, 8)}</td>
                    <td>{generationState(each)}</td>
                    <td className="right">{count(each.rows)}</td>
                    <td className="right only-wide">{bytes(each.bytes)}</td>
                    <td className="right only-wide">{count(each.partitions)}</td>
                    <td className="only-wide">{clock(each.created_at)}</td>
                    <td className="right">
                      {each.purged_at === null && (
                        <button
                          type="button"
                          className="link"
                          onClick={() => onAt(each.current ? undefined : each.dataset_version)}
                        >
                          {(at === null ? each.current : at === each.dataset_version)
                            ? "shown above"
                            : "Show"}
                        </button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
    </Loaded>
  );
}

function generationState(each: S<"DatasetVersion">) {
  if (each.purged_at !== null) return <State state="Removed" label="purged" />;
  if (each.building) return <State state="Building" label="being built" />;
  if (each.current) return <State state="fresh" label="what readers see" />;
  return <State state="off" label="gave way" />;
}

function Preview({ name, at, published }: { name: string; at: string | null; published: boolean }) {
  const [from, setFrom] = useState("");
  const pinned = at === null ? name : `${name}@${at.slice(0, 12)}`;
  const where = /^\d+$/.test(from) ? `\n where block_number >= ${from}` : "";
  const sql = `select *\n  from ${pinned}${where}\n limit 200`;
  const rows = useQuery({
    queryKey: ["preview", sql],
    queryFn: ({ signal }) => run(sql, 200, null, crypto.randomUUID(), signal),
    enabled: published,
    staleTime: 30_000,
    structuralSharing: false,
  });
  if (!published) {
    return (
      <Card>
        <Empty title="Only published datasets can be queried">
          Give it a name under publish in its DAG file to see its rows here.
        </Empty>
      </Card>
    );
  }
  return (
    <Card
      title="The first 200 rows"
      aside={
        <Link to="/query/" search={{ sql }}>
          Open in Query
        </Link>
      }
    >
      <div className="filters">
        <Field label="From block">
          <input
            value={from}
            inputMode="numeric"
            placeholder="any"
            onChange={(event) => setFrom(event.target.value)}
          />
        </Field>
      </div>
      <Loaded query={rows} lines={8}>
        {(data) =>
          data.rowCount === 0 ? (
            <Empty title="No rows">Nothing is committed, or nothing from that block on.</Empty>
          ) : (
            <div className="preview">
              <Grid key={data.id} result={data} onCell={() => undefined} />
            </div>
          )
        }
      </Loaded>
    </Card>
  );
}

function Readers({ data }: { data: S<"DatasetDetail"> }) {
  return (
    <Card title="What it is made of, and who reads it">
      <Flow
        before={data.upstream}
        name={data.dataset}
        after={data.downstream}
        beforeNone="it comes from outside"
        afterNone="no job reads it"
        link={(each) =>
          data.upstream.includes(each) ? (
            <Link to="/datasets/$dataset/" params={{ dataset: each }}>
              {each}
            </Link>
          ) : (
            <Link to="/why/$subject/" params={{ subject: each }}>
              {each}
            </Link>
          )
        }
      />
      {data.max_age_s !== null && (
        <p className="faint">It counts as stale beyond an age of {duration(data.max_age_s)}.</p>
      )}
    </Card>
  );
}

function Events({ name }: { name: string }) {
  const events = useQuery(ask.events(name));
  return (
    <Loaded query={events}>
      {(data) =>
        data.events.length === 0 ? (
          <Card>
            <Empty title="No event yet">An event tells that something of the dataset is new.</Empty>
          </Card>
        ) : (
          <Card>
            <ul className="list">
              {data.events.map((each) => (
                <li key={each.event_id} className="row">
                  <span className="faint mono">{each.event_id}</span>
                  <span className="mono">{each.partition_key ?? count(each.cursor)}</span>
                  <span className="faint">
                    {each.routed_at === null ? "waits to be routed" : "routed"}
                    {each.current ? "" : ", of an older generation"}
                  </span>
                  <span className="grow" />
                  {each.producer_task_id && (
                    <Link to="/tasks/$task/" params={{ task: each.producer_task_id }}>
                      task
                    </Link>
                  )}
                  <span className="faint">
                    <Ago at={each.recorded_at} />
                  </span>
                </li>
              ))}
            </ul>
          </Card>
        )
      }
    </Loaded>
  );
}
