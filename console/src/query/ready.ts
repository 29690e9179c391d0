// Three statements that run on what this instance has.

import type { S } from "../api/types";

export interface Ready {
  title: string;
  sql: string;
}

interface Shape {
  needs: string[];
  make: (name: string) => Ready;
}

const SHAPES: Shape[] = [
  {
    needs: ["address", "topic0", "topic1", "topic2", "block_number"],
    make: (name) => ({
      title: "The most active tokens",
      sql: `select address as token, count(*) as transfers,
       count(distinct topic1) as senders, count(distinct topic2) as receivers,
       max(block_number) as last_block
  from ${name}
 where topic0 = topic('Transfer(address,address,uint256)')
 group by address
 order by transfers desc
 limit 20`,
    }),
  },
  {
    needs: ["block_number", "gas_used", "gas_limit"],
    make: (name) => ({
      title: "How full the newest blocks are",
      sql: `select block_number, gas_used, round(100.0 * gas_used / gas_limit, 2) as full_percent
  from ${name}
 order by block_number desc
 limit 200`,
    }),
  },
  {
    needs: ["from_address", "value_string", "block_number"],
    make: (name) => ({
      title: "Who sent most, exact to the wei",
      sql: `select from_address as sender, count(*) as transactions,
       sum_exact(value_string) as wei, max(block_number) as last_block
  from ${name}
 group by from_address
 order by wei desc
 limit 20`,
    }),
  },
];

export function readyQueries(datasets: S<"DatasetSummary">[]): Ready[] {
  const found: Ready[] = [];
  for (const shape of SHAPES) {
    const match = datasets.find((each) => {
      const names = new Set(each.columns?.map((column) => column.name));
      return shape.needs.every((name) => names.has(name));
    });
    if (match) found.push(shape.make(match.name));
  }
  const any = datasets.find((each) => each.columns !== null);
  if (any && found.length < 3) {
    found.push({ title: `Rows of ${any.name}`, sql: `select *\n  from ${any.name}\n limit 100` });
  }
  if (any && found.length < 3) {
    found.push({ title: `What ${any.name} holds`, sql: `summarize ${any.name}` });
  }
  if (found.length < 3) found.push({ title: "All tables and columns", sql: "show all tables" });
  return found.slice(0, 3);
}
