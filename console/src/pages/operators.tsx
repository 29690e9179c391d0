import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import * as ask from "../api/queries";
import { Page } from "../shell/page";
import { Card, NoMatch, Tag } from "../ui/basics";
import { Markdown } from "../ui/markdown";
import { Loaded } from "../ui/problem";

interface Operator {
  name: string;
  summary: string;
  text: string;
}

/** The reference is written from the models that check each configuration. */
const reference = {
  queryKey: ["operators"],
  queryFn: async () => {
    const { default: text } = await import("../../../docs/reference/operators.md?raw");
    return sections(text);
  },
  staleTime: Infinity,
};

function sections(text: string): Operator[] {
  return text
    .split(/^## /m)
    .slice(1)
    .map((part) => {
      const [name = "", ...rest] = part.split("\n");
      const body = rest.join("\n").trim();
      return { name: name.trim(), summary: body.split("\n\n")[0] ?? "", text: body };
    });
}

export function Operators() {
  const operators = useQuery(reference);
  const used = useUse();
  const [typed, setTyped] = useState("");
  const [onlyUsed, setOnlyUsed] = useState(false);
  return (
    <Page title="Operators" doc="operators">
      <div className="filters">
        <input
          type="search"
          aria-label="Name, field or word"
          placeholder="Name, field or word"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        <label className="row">
          <input
            type="checkbox"
            checked={onlyUsed}
            onChange={(event) => setOnlyUsed(event.target.checked)}
          />
          Only what a job here uses
        </label>
        <span className="faint">
          ABIs that come with Trace:{" "}
          <Link to="/docs/$page/" params={{ page: "decoding" }}>
            decoding
          </Link>
        </span>
      </div>
      <Loaded query={operators} lines={10}>
        {(data) => {
          const wanted = typed.trim().toLowerCase();
          const shown = data.filter(
            (each) =>
              (!wanted || `${each.name} ${each.text}`.toLowerCase().includes(wanted)) &&
              (!onlyUsed || used.has(each.name)),
          );
          if (shown.length === 0) {
            return (
              <Card>
                <NoMatch
                  onClear={() => {
                    setTyped("");
                    setOnlyUsed(false);
                  }}
                />
              </Card>
            );
          }
          return (
            <div className="grid cards">
              {shown.map((each) => (
                <OperatorCard
                  key={each.name}
                  operator={each}
                  jobs={used.get(each.name) ?? []}
                  open={shown.length === 1}
                />
              ))}
            </div>
          );
        }}
      </Loaded>
    </Page>
  );
}

function OperatorCard({
  operator,
  jobs,
  open,
}: {
  operator: Operator;
  jobs: string[];
  open: boolean;
}) {
  const [shown, setShown] = useState(false);
  const visible = shown || open;
  return (
    <Card
      className={visible ? "whole" : ""}
      title={<span className="mono">{operator.name}</span>}
      aside={
        <button
          type="button"
          className="link"
          aria-expanded={visible}
          onClick={() => setShown(!shown)}
        >
          {visible ? "Less" : "Configuration"}
          <span className="hidden"> of {operator.name}</span>
        </button>
      }
    >
      {visible ? <Markdown text={operator.text} /> : <p className="soft">{operator.summary}</p>}
      {jobs.length > 0 && (
        <p className="row" style={{ marginTop: 8 }}>
          {jobs.map((job) => (
            <Link key={job} to="/why/$subject/" params={{ subject: job }}>
              <Tag>{job}</Tag>
            </Link>
          ))}
        </p>
      )}
    </Card>
  );
}

/** Which jobs of this instance have which operator. */
function useUse(): Map<string, string[]> {
  const dags = useQuery(ask.dags());
  const statuses = useQueries({
    queries: (dags.data?.dags ?? [])
      .filter((dag) => dag.state === "Active")
      .map((dag) => ask.dag(dag.dag_name)),
  });
  const used = new Map<string, string[]>();
  for (const { data } of statuses) {
    for (const job of data?.jobs ?? []) {
      if (job.operator === null) continue;
      used.set(job.operator, [...(used.get(job.operator) ?? []), `${data!.dag_name}.${job.name}`]);
    }
  }
  return used;
}
