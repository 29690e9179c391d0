import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as ask from "../api/queries";
import { Dialog } from "../ui/dialog";
import { PLACES } from "./pages";
import { toggleTheme } from "./theme";

interface Entry {
  key: string;
  label: string;
  kind: string;
  words: string;
  go: () => void;
}

const MOST = 12;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/i;

/** Everything that has a page, by its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const entries = useEntries(typed.trim());
  const found = useMemo(() => best(entries, typed), [entries, typed]);
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.go();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        className="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[at] ? `palette-${at}` : undefined}
        aria-label="A page, dataset, job or task id"
        placeholder="A page, dataset, job or task id"
        value={typed}
        autoFocus
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          else if (event.key === "Enter") open(found[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul className="palette-list" id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, index) => (
          <li
            key={entry.key}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={() => open(entry)}
          >
            <span>{entry.label}</span>
            <span className="faint">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="faint">Nothing is called that.</p>}
    </Dialog>
  );
}

function useEntries(typed: string): Entry[] {
  const navigate = useNavigate();
  const datasets = useQuery(ask.datasets());
  const dags = useQuery(ask.dags());
  return useMemo(() => {
    const entries: Entry[] = PLACES.map((place) => ({
      key: place.to,
      label: place.label,
      kind: `page · g ${place.key}`,
      words: place.words,
      go: () => void navigate({ to: place.to }),
    }));
    for (const each of datasets.data?.datasets ?? []) {
      entries.push({
        key: `dataset ${each.dataset}`,
        label: each.dataset,
        kind: "dataset",
        words: each.producer,
        go: () => void navigate({ to: "/datasets/$dataset/", params: { dataset: each.dataset } }),
      });
    }
    for (const dag of dags.data?.dags ?? []) {
      for (const job of dag.job_names) {
        const name = `${dag.dag_name}.${job}`;
        entries.push({
          key: `job ${name}`,
          label: name,
          kind: "job",
          words: "why tasks",
          go: () => void navigate({ to: "/why/$subject/", params: { subject: name } }),
        });
      }
    }
    if (UUID.test(typed)) {
      entries.push({
        key: "task",
        label: typed,
        kind: "task",
        words: "",
        go: () => void navigate({ to: "/tasks/$task/", params: { task: typed } }),
      });
    }
    entries.push({
      key: "theme",
      label: "Switch between dark and light",
      kind: "command · t",
      words: "theme",
      go: toggleTheme,
    });
    return entries;
  }, [datasets.data, dags.data, typed, navigate]);
}

function best(entries: Entry[], typed: string): Entry[] {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return entries.slice(0, MOST);
  const rank = (entry: Entry): number => {
    const label = entry.label.toLowerCase();
    if (label.startsWith(wanted)) return 0;
    if (label.includes(wanted)) return 1;
    if (entry.words.includes(wanted)) return 2;
    return 9;
  };
  return entries
    .map((entry) => [rank(entry), entry] as const)
    .filter(([rank]) => rank < 9)
    .sort((a, b) => a[0] - b[0])
    .slice(0, MOST)
    .map(([, entry]) => entry);
}
