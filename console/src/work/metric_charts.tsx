import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { call } from "../api/client";
import { Spark } from "../charts/chart";
import { short } from "../ui/format";
import { Loaded } from "../ui/problem";
import { parseMetrics, rates, total, type Sample } from "./metrics";

const EVERY_MS = 5_000;
const KEPT = 120;

interface Shown {
  label: string;
  name: string;
  labelled?: string;
  /** Counters are shown by what they grow per second. */
  rate?: boolean;
}

const SHOWN: Shown[] = [
  { label: "Tasks that wait", name: "trace_queue_depth" },
  { label: "Tasks that run", name: "trace_tasks_running" },
  { label: "Tasks ended per second", name: "trace_tasks_ended_total", rate: true },
  { label: "Retries per second", name: "trace_task_retries_total", rate: true },
  { label: "Leases that expired per second", name: "trace_lease_expiries_total", rate: true },
  { label: "Outbox rows", name: "trace_outbox_rows" },
  { label: "Blocks behind, all sources", name: "trace_source_behind" },
  { label: "Queries that run", name: "trace_queries_running" },
  { label: "Queries per second", name: "trace_queries_total", rate: true },
  { label: "Rows answered per second", name: "trace_query_rows_total", rate: true },
  { label: "Calls to nodes per second", name: "trace_rpc_requests_total", rate: true },
  { label: "Calls that failed per second", name: "trace_rpc_errors_total", rate: true },
];

/** What the processes count, asked every five seconds while this is looked at. */
export function MetricCharts() {
  const [history, setHistory] = useState<number[][]>([]);
  const last = useRef(0);
  const samples = useQuery({
    queryKey: ["metrics"],
    queryFn: async ({ signal }) => {
      const texts = await Promise.all(
        ["dispatcher", "query", "rpc"].map(async (service) => {
          const answer = await call(`/v1/metrics/${service}`, { method: "GET", signal });
          return answer.text();
        }),
      );
      return { at: Date.now(), samples: texts.flatMap(parseMetrics) };
    },
    refetchInterval: EVERY_MS,
    structuralSharing: false,
    gcTime: 0,
  });
  useEffect(() => {
    const data = samples.data;
    if (!data || data.at === last.current) return;
    last.current = data.at;
    setHistory((kept) => [...kept, SHOWN.map((each) => valueOf(data.samples, each))].slice(-KEPT));
  }, [samples.data]);
  return (
    <Loaded query={samples}>
      {() => (
        <div className="metrics">
          {SHOWN.map((each, index) => {
            const seen = history.map((values) => values[index] ?? 0);
            const values = each.rate ? rates(seen, EVERY_MS / 1000) : seen;
            const newest = values.at(-1);
            return (
              <div key={each.label} className="metric">
                <span className="faint">{each.label}</span>
                <strong>
                  {newest === undefined
                    ? "…"
                    : newest % 1 === 0
                      ? short(newest)
                      : newest.toFixed(1)}
                </strong>
                <Spark
                  values={values.length > 1 ? values : [0, 0]}
                  label={`${each.label} while this page was open`}
                />
              </div>
            );
          })}
        </div>
      )}
    </Loaded>
  );
}

function valueOf(samples: Sample[], shown: Shown): number {
  return total(samples, shown.name, shown.labelled);
}
