import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { createColumnHelper } from "@tanstack/react-table";
import { useState } from "react";
import * as ask from "../api/queries";
import type { S } from "../api/types";
import { Page } from "../shell/page";
import { Ago, Button, Card, Empty, NoMatch, Tag } from "../ui/basics";
import { bytes, count } from "../ui/format";
import { Loaded } from "../ui/problem";
import { State } from "../ui/state";
import { Table } from "../ui/table";

type Entry = S<"DatasetEntry"> & { pii: string[] };
interface View {
  name: string;
  q?: string | undefined;
  state?: string | undefined;
  all?: boolean | undefined;
}

const column = createColumnHelper<Entry>();
const COLUMNS = [
  column.accessor("dataset", {
    header: "Dataset",
    meta: { grow: true },
    cell: (cell) => (
      <Link to="/datasets/$dataset/" params={{ dataset: cell.getValue() }} title={cell.getValue()}>
        {cell.getValue()}
      </Link>
    ),
  }),
  column.accessor("state", { header: "State", cell: (cell) => <State state={cell.getValue()} /> }),
  column.accessor("newest_at", {
    header: "Newest",
    cell: (cell) => <Ago at={cell.getValue()} />,
  }),
  column.accessor("rows", {
    header: "Rows",
    meta: { right: true },
    cell: (cell) => (cell.row.original.rows_estimated ? "≈ " : "") + count(cell.getValue()),
  }),
  column.accessor("bytes", {
    header: "Size",
    meta: { right: true, wide: true },
    cell: (cell) => bytes(cell.getValue()),
  }),
  column.accessor("partitions", {
    header: "Partitions",
    meta: { right: true, wide: true },
    cell: (cell) => count(cell.getValue()),
  }),
  column.accessor("producer", {
    header: "Made by",
    meta: { wide: true },
    cell: (cell) => <span className="mono soft">{cell.getValue()}</span>,
  }),
  column.accessor((row) => row.pii.length, {
    id: "pii",
    header: "Classification",
    meta: { wide: true },
    cell: (cell) => (cell.row.original.pii.length > 0 ? <Tag>personal</Tag> : null),
  }),
];

export function Catalogue() {
  const search = useSearch({ from: "/catalogue" });
  const navigate = useNavigate({ from: "/catalogue" });
  const datasets = useQuery(ask.datasets(search.all));
  const published = useQuery(ask.published());
  const go = (part: Omit<View, "name">) =>
    void navigate({ to: "/catalogue/", search: { ...search, ...part }, replace: true });
  const pii = new Map(published.data?.datasets.map((each) => [each.name, each.pii ?? []]));
  return (
    <Page title="Catalogue" doc="datasets">
      <div className="filters">
        <input
          type="search"
          aria-label="Name or job"
          placeholder="Name or job"
          value={search.q ?? ""}
          onChange={(event) => go({ q: event.target.value || undefined })}
        />
        <select
          aria-label="State"
          value={search.state ?? ""}
          onChange={(event) => go({ state: event.target.value || undefined })}
        >
          <option value="">Any state</option>
          {["fresh", "stale", "blocked"].map((state) => (
            <option key={state}>{state}</option>
          ))}
        </select>
        <label className="row">
          <input
            type="checkbox"
            checked={search.all ?? false}
            onChange={(event) => go({ all: event.target.checked || undefined })}
          />
          Also unpublished
        </label>
        <SavedViews now={search} onOpen={go} />
      </div>
      <Loaded query={datasets} lines={8}>
        {(data) => {
          const all = data.datasets.map((each) => ({ ...each, pii: pii.get(each.dataset) ?? [] }));
          const shown = all.filter((each) => fits(each, search));
          if (all.length === 0) {
            return (
              <Card>
                <Empty
                  title="Nothing is published yet"
                  command="trace deploy src/trace_platform/examples/chain.yaml"
                >
                  A dataset is one output of one job; publish gives it a name. The first DAG brings
                  blocks, transactions and logs.
                </Empty>
              </Card>
            );
          }
          if (shown.length === 0) {
            return (
              <Card>
                <NoMatch onClear={() => go({ q: undefined, state: undefined })} />
              </Card>
            );
          }
          return (
            <Card className="flush">
              <Table
                label="Datasets"
                rows={shown}
                columns={COLUMNS}
                rowId={(row) => row.dataset_uuid}
                onOpen={(row) =>
                  void navigate({ to: "/datasets/$dataset/", params: { dataset: row.dataset } })
                }
              />
            </Card>
          );
        }}
      </Loaded>
    </Page>
  );
}

function fits(
  each: Entry,
  { q, state }: { q?: string | undefined; state?: string | undefined },
): boolean {
  if (state && each.state !== state) return false;
  if (!q) return true;
  const words = q.toLowerCase().split(/\s+/);
  const said =
    `${each.dataset} ${each.producer} ${each.pii.length ? "personal" : ""}`.toLowerCase();
  return words.every((word) => said.includes(word));
}

const KEY = "trace.views";

function savedViews(): View[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as View[];
  } catch {
    return [];
  }
}

/** Filters under a name, kept in this browser. */
function SavedViews({
  now,
  onOpen,
}: {
  now: Omit<View, "name">;
  onOpen: (view: Omit<View, "name">) => void;
}) {
  const [views, setViews] = useState(savedViews);
  const keep = (next: View[]) => {
    localStorage.setItem(KEY, JSON.stringify(next));
    setViews(next);
  };
  const filtered = Boolean(now.q || now.state || now.all);
  const name = [now.q, now.state, now.all && "all"].filter(Boolean).join(" · ");
  const kept = views.some((view) => view.name === name);
  return (
    <>
      {views.map((view) => (
        <Button
          key={view.name}
          look="quiet"
          onClick={() => onOpen({ q: view.q, state: view.state, all: view.all })}
        >
          {view.name}
        </Button>
      ))}
      {filtered && (
        <Button
          look="quiet"
          onClick={() =>
            keep(kept ? views.filter((view) => view.name !== name) : [...views, { name, ...now }])
          }
        >
          {kept ? "Forget this view" : "Save this view"}
        </Button>
      )}
    </>
  );
}
