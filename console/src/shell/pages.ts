import type { IconName } from "../ui/icons";

export interface Place {
  to: string;
  label: string;
  icon: IconName;
  /** Typed after `g`. */
  key: string;
  group: "" | "Data" | "Work" | "System";
  words: string;
}

export const PLACES: readonly Place[] = [
  { to: "/", label: "Home", icon: "home", key: "h", group: "", words: "overview start lag alerts" },
  {
    to: "/query/",
    label: "Query",
    icon: "query",
    key: "q",
    group: "Data",
    words: "sql editor select",
  },
  {
    to: "/catalogue/",
    label: "Catalogue",
    icon: "catalogue",
    key: "c",
    group: "Data",
    words: "datasets tables",
  },
  {
    to: "/graph/",
    label: "Graph",
    icon: "graph",
    key: "g",
    group: "Data",
    words: "lineage dag jobs",
  },
  {
    to: "/chains/",
    label: "Chains",
    icon: "chains",
    key: "n",
    group: "Data",
    words: "heads reorgs providers rpc",
  },
  { to: "/runs/", label: "Runs", icon: "runs", key: "r", group: "Work", words: "tasks attempts" },
  {
    to: "/backfills/",
    label: "Backfills",
    icon: "backfills",
    key: "b",
    group: "Work",
    words: "range again",
  },
  {
    to: "/deploy/",
    label: "Deploy",
    icon: "deploy",
    key: "d",
    group: "Work",
    words: "plan rollback versions yaml",
  },
  {
    to: "/operators/",
    label: "Operators",
    icon: "operators",
    key: "o",
    group: "System",
    words: "config abi",
  },
  {
    to: "/health/",
    label: "Workers & health",
    icon: "health",
    key: "w",
    group: "System",
    words: "alerts metrics queues processes",
  },
];
