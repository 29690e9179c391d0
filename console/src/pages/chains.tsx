import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Card, Empty, Figure } from "../ui/basics";
import { ago, count, plural } from "../ui/format";
import { Loaded } from "../ui/problem";
import { State } from "../ui/state";
import "./chains.css";

const SEEN_BLOCKS = 300;

export function Chains() {
  const sources = useQuery(ask.sources());
  const pools = useQuery(ask.pools());
  return (
    <Page title="Chains" doc="block-follower">
      <div className="grid">
        <Loaded query={sources}>
          {(data) => {
            const followers = data.sources.filter((source) => source.kind === "always_on");
            return followers.length === 0 ? (
              <Card title="Followed">
                <Empty
                  title="No chain is followed"
                  command="trace deploy src/trace_platform/examples/follow.yaml"
                >
                  A follower keeps tables at the head of a chain, through reorgs. TRACE_RPC_DEMO=URL
                  says where the node is.
                </Empty>
              </Card>
            ) : (
              <div className="grid">
                {followers.map((source) => (
                  <Followed key={`${source.dag_name}.${source.job_name}`} source={source} />
                ))}
              </div>
            );
          }}
        </Loaded>
        <Loaded query={pools}>
          {(data) =>
            data.pools.length === 0 ? (
              <Card title="Nodes">
                <Empty
                  title="No pool of nodes is set up"
                  command="TRACE_RPC_MAINNET=https://... trace up"
                >
                  All calls to nodes go through the egress; it knows a pool by its setting.
                </Empty>
              </Card>
            ) : (
              <div className="grid">
                {data.pools.map((pool) => (
                  <Pool key={pool.name} pool={pool} />
                ))}
              </div>
            )
          }
        </Loaded>
        <Reorgs />
      </div>
    </Page>
  );
}

function Followed({ source }: { source: S<"SourceStatus"> }) {
  const name = `${source.dag_name}.${source.job_name}`;
  const behind =
    typeof source.head === "number" && typeof source.last === "number"
      ? Math.max(0, source.head - source.last)
      : null;
  return (
    <Card
      title={
        <Link to="/why/$subject/" params={{ subject: name }}>
          {name}
        </Link>
      }
      aside={<State state={source.state} />}
    >
      <div className="figures">
        <Figure label="Head">{count(source.head)}</Figure>
        <Figure label="Written up to">{count(source.last)}</Figure>
        <Figure label="Behind">{behind === null ? "–" : plural(behind, "block")}</Figure>
        <Figure label="Heard of the node">
          {typeof source.heard_s === "number" ? ago(source.heard_s) : "–"}
        </Figure>
        <Figure label="Attempt">{source.attempt ?? "–"}</Figure>
      </div>
      {(source.stuck ?? source.error_message) && (
        <p className="bad-text wrap">{source.stuck ?? source.error_message}</p>
      )}
    </Card>
  );
}

function Pool({ pool }: { pool: S<"PoolStatus"> }) {
  return (
    <Card
      title={`Pool ${pool.name}`}
      aside={
        <>
          {pool.chain_id !== null && <span>chain {pool.chain_id}</span>}
          <span>head {count(pool.head)}</span>
        </>
      }
      className="flush"
    >
      <div
        className="table-scroll"
        tabIndex={0}
        role="region"
        aria-label={`Providers of ${pool.name}`}
      >
        <table className="table">
          <thead>
            <tr>
              <th>Provider</th>
              <th>State</th>
              <th className="right">Head</th>
              <th className="right">Behind</th>
              <th className="right only-wide">Requests</th>
              <th className="right only-wide">Failed</th>
              <th className="right only-wide">Limited</th>
              <th className="right only-wide">Under way</th>
              <th className="only-wide">Why</th>
            </tr>
          </thead>
          <tbody>
            {pool.providers.map((each) => (
              <tr key={each.name}>
                <td title={each.endpoint}>
                  {each.name}
                  {each.name === pool.leader && <span className="faint"> leads</span>}
                </td>
                <td>
                  <State state={each.state} />
                </td>
                <td className="right">{count(each.head)}</td>
                <td className="right">{count(each.lag)}</td>
                <td className="right only-wide">{count(each.requests)}</td>
                <td className="right only-wide">{count(each.failures)}</td>
                <td className="right only-wide">{count(each.limits_hit)}</td>
                <td className="right only-wide">
                  {count(each.in_flight)} of {count(each.max_concurrency)}
                </td>
                <td className="only-wide grow" title={each.reason ?? ""}>
                  {each.reason ?? <span className="faint">{each.endpoint}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

interface Reorg {
  key: string;
  start: number;
  end: number;
  reason: string;
  at: string;
  cause: string;
  of: S<"InvalidationStatus">[];
}

/** What a follower reported of rewritten blocks, its tables together. */
export function reorgsOf(invalidations: S<"InvalidationStatus">[]): Reorg[] {
  const found = new Map<string, Reorg>();
  for (const each of invalidations) {
    if (!each.remade || each.cause_task_id === null || each.start === null || each.end === null)
      continue;
    if (!each.reason.startsWith("reorg")) continue;
    const key = `${each.cause_task_id} ${each.start} ${each.end} ${each.reason}`;
    const known = found.get(key);
    if (known) known.of.push(each);
    else {
      found.set(key, {
        key: each.invalidation_id,
        start: each.start,
        end: each.end,
        reason: each.reason,
        at: each.created_at,
        cause: each.cause_task_id,
        of: [each],
      });
    }
  }
  return [...found.values()];
}

function Reorgs() {
  const invalidations = useQuery(ask.invalidations(null, false));
  const sources = useQuery(ask.sources());
  return (
    <Card title="Reorgs" aside="which blocks were replaced, and what was done again because of it">
      <Loaded query={invalidations}>
        {(data) => {
          const reorgs = reorgsOf(data.invalidations);
          const head = Math.max(
            0,
            ...(sources.data?.sources ?? []).map((source) => source.head ?? 0),
            ...reorgs.map((reorg) => reorg.end),
          );
          if (reorgs.length === 0) {
            return (
              <p className="faint">
                None was seen. When a chain is rewritten, it shows here as it happens.
              </p>
            );
          }
          return (
            <div className="stack">
              <Strip reorgs={reorgs} head={head} />
              <ul className="list">
                {reorgs.map((reorg) => (
                  <li key={reorg.key} className="reorg">
                    <div className="row">
                      <strong>
                        {count(reorg.start)} to {count(reorg.end)}
                      </strong>
                      <span>{plural(reorg.end - reorg.start + 1, "block")} replaced</span>
                      <span className="soft grow clip" title={reorg.reason}>
                        {reorg.reason}
                      </span>
                      <Link to="/tasks/$task/" params={{ task: reorg.cause }}>
                        follower
                      </Link>
                      <span className="faint">
                        <Ago at={reorg.at} />
                      </span>
                    </div>
                    {reorg.of.map((each) => (
                      <div key={each.invalidation_id} className="row">
                        <State state={each.state} />
                        <Link to="/datasets/$dataset/" params={{ dataset: each.dataset }}>
                          {each.dataset}
                        </Link>
                        <span className="faint">
                          {each.tasks > 0
                            ? `${each.tasks_done} of ${plural(each.tasks, "task")} done again`
                            : (each.note ?? "not routed yet")}
                        </span>
                      </div>
                    ))}
                  </li>
                ))}
              </ul>
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** The newest blocks; how high a mark is says how deep the reorg was. */
function Strip({ reorgs, head }: { reorgs: Reorg[]; head: number }) {
  const from = Math.max(0, head - SEEN_BLOCKS);
  const seen = reorgs.filter((reorg) => reorg.end >= from);
  const deepest = Math.max(1, ...seen.map((reorg) => reorg.end - reorg.start + 1));
  const place = (block: number) => (100 * (block - from)) / Math.max(1, head - from + 1);
  return (
    <div>
      <div
        className="reorg-strip"
        role="img"
        aria-label={`${plural(seen.length, "reorg")} among the newest ${SEEN_BLOCKS} blocks`}
      >
        {seen.map((reorg) => (
          <i
            key={reorg.key}
            title={`${count(reorg.start)} to ${count(reorg.end)}`}
            style={{
              left: `${Math.max(0, place(reorg.start))}%`,
              width: `${place(reorg.end + 1) - Math.max(0, place(reorg.start))}%`,
              height: `${30 + (70 * (reorg.end - reorg.start + 1)) / deepest}%`,
            }}
          />
        ))}
        <i className="head-mark" style={{ left: `calc(${place(head + 1)}% - 2px)` }} />
      </div>
      <div className="strip-axis">
        <span>{count(from)}</span>
        <span>head {count(head)}</span>
      </div>
    </div>
  );
}
