import { onchainTable, primaryKey } from "ponder";

export const blocks = onchainTable("blocks", (t) => ({
  blockNumber: t.bigint().primaryKey(),
  blockHash: t.hex().notNull(),
}));

export const transactions = onchainTable(
  "transactions",
  (t) => ({
    blockNumber: t.bigint().notNull(),
    transactionIndex: t.integer().notNull(),
    transactionHash: t.hex().notNull(),
  }),
  (table) => ({ pk: primaryKey({ columns: [table.blockNumber, table.transactionIndex] }) }),
);

export const logs = onchainTable(
  "logs",
  (t) => ({
    blockNumber: t.bigint().notNull(),
    logIndex: t.integer().notNull(),
    transactionHash: t.hex().notNull(),
    data: t.hex().notNull(),
  }),
  (table) => ({ pk: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);
