import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as ask from "../api/queries";
import { Ago, Button, IconButton } from "../ui/basics";
import { bytes, count } from "../ui/format";
import { Loaded } from "../ui/problem";
import { State } from "../ui/state";
import { WhyNode } from "../work/why_node";
import type { Thing } from "./model";

/** What is known of one thing of the graph, beside it. */
export function GraphDrawer({
  thing,
  onClose,
  onCloseGroup,
}: {
  thing: Thing;
  onClose: () => void;
  onCloseGroup: () => void;
}) {
  return (
    <aside className="drawer" aria-label={thing.label}>
      <div className="stack">
        <div className="row" style={{ flexWrap: "nowrap", alignItems: "flex-start" }}>
          <h2 className="wrap grow">{thing.label}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </div>
        {thing.kind === "dataset" ? <OfDataset name={thing.id} /> : <OfJob name={thing.id} />}
        <div>
          <h3>Why</h3>
          <WhyNode key={thing.id} subject={thing.id} root />
        </div>
        <div>
          <Button look="quiet" onClick={onCloseGroup}>
            Close the group {thing.dag}
          </Button>
        </div>
      </div>
    </aside>
  );
}

function OfDataset({ name }: { name: string }) {
  const detail = useQuery(ask.dataset(name));
  return (
    <Loaded query={detail}>
      {(data) => (
        <>
          <div className="row">
            <Link className="button main" to="/datasets/$dataset/" params={{ dataset: name }}>
              Open
            </Link>
            {data.name !== null && (
              <Link
                className="button"
                to="/query/"
                search={{ sql: `select *\n  from ${name}\n limit 100` }}
              >
                Query
              </Link>
            )}
          </div>
          <dl className="facts">
            <dt>State</dt>
            <dd>
              <State state={data.state} />
            </dd>
            <dt>Newest</dt>
            <dd>
              <Ago at={data.newest_at} />
            </dd>
            <dt>Rows</dt>
            <dd>{count(data.rows)}</dd>
            <dt>Size</dt>
            <dd>{bytes(data.bytes)}</dd>
            <dt>Blocks</dt>
            <dd>
              {data.first_block === null
                ? "–"
                : `${count(data.first_block)} to ${count(data.cursor ?? data.last_block)}`}
            </dd>
          </dl>
        </>
      )}
    </Loaded>
  );
}

function OfJob({ name }: { name: string }) {
  const [dag = "", job = ""] = name.split(".");
  const status = useQuery(ask.dag(dag));
  return (
    <Loaded query={status}>
      {(data) => {
        const found = data.jobs.find((each) => each.name === job);
        return (
          <>
            <div className="row">
              <Link className="button main" to="/runs/" search={{ dag, job }}>
                Tasks
              </Link>
              <Link className="button" to="/deploy/" search={{ dag }}>
                Its DAG
              </Link>
            </div>
            <dl className="facts">
              <dt>Operator</dt>
              <dd className="mono">{found?.operator ?? "none"}</dd>
              {Object.entries(found?.counts ?? {}).map(([state, tasks]) => (
                <div key={state} style={{ display: "contents" }}>
                  <dt>
                    <State state={state} />
                  </dt>
                  <dd>{count(tasks)}</dd>
                </div>
              ))}
            </dl>
          </>
        );
      }}
    </Loaded>
  );
}
