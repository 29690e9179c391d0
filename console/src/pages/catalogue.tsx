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
  owner?: string | undefined;
  tag?: string | undefined;
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
  column.accessor((row) => row.owner ?? "", {
    id: "owner",
    header: "Owner",
    meta: { wide: true },
    cell: (cell) => cell.getValue() || <span className="faint">–</span>,
  }),
  column.accessor((row) => row.tags?.join(" ") ?? "", {
    id: "tags",
    header: "Tags",
    meta: { wide: true },
    cell: (cell) => (
      <span className="row">
        {cell.row.original.pii.length > 0 && <Tag>personal</Tag>}
        {cell.row.original.tags?.map((tag) => <Tag key={tag}>{tag}</Tag>)}
      </span>
    ),
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
          placeholder="Name, job, owner or tag"
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
        <OneOf
          label="Owner"
          any="Any owner"
          values={(datasets.data?.datasets ?? []).flatMap((each) => each.owner ?? [])}
          value={search.owner}
          onChange={(owner) => go({ owner })}
        />
        <OneOf
          label="Tag"
          any="Any tag"
          values={(datasets.data?.datasets ?? []).flatMap((each) => each.tags ?? [])}
          value={search.tag}
          onChange={(tag) => go({ tag })}
        />
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
                <NoMatch onClear={() =>
                    go({ q: undefined, state: undefined, owner: undefined, tag: undefined })
                  } />
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

/** A choice of what there is; nothing where there is nothing to choose from. */
function OneOf({
  label,
  any,
  values,
  value,
  onChange,
}: {
  label: string;
  any: string;
  values: string[];
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  const known = [...new Set(value ? [...values, value] : values)].sort();
  if (known.length === 0) return null;
  return (
    <select
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value || undefined)}
    >
      <option value="">{any}</option>
      {known.map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  );
}

function fits(each: Entry, { q, state, owner, tag }: Omit<View, "name">): boolean {
  if (state && each.state !== state) return false;
  if (owner && each.owner !== owner) return false;
  if (tag && !each.tags?.includes(tag)) return false;
  if (!q) return true;
  const words = q.toLowerCase().split(/\s+/);
  const said =
    `${each.dataset} ${each.producer} ${each.owner ?? ""} ${each.tags?.join(" ") ?? ""} ${each.pii.length ? "personal" : ""}`.toLowerCase();
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
  const name = [now.q, now.state, now.owner, now.tag, now.all && "all"].filter(Boolean).join(" · ");
  const filtered = name !== "";
  const kept = views.some((view) => view.name === name);
  return (
    <>
      {views.map((view) => (
        <Button
          key={view.name}
          look="quiet"
          onClick={() =>
            onOpen({
              q: view.q,
              state: view.state,
              owner: view.owner,
              tag: view.tag,
              all: view.all,
            })
          }
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
