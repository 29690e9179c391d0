import { ponder } from "ponder:registry";
import { blocks, logs, transactions } from "ponder:schema";

ponder.on("Every:block", async ({ event, context }) => {
  const { number, hash } = event.block;
  await context.db.insert(blocks).values({ blockNumber: number, blockHash: hash });
});

ponder.on("Senders:transaction:from", async ({ event, context }) => {
  await context.db.insert(transactions).values({
    blockNumber: event.block.number,
    transactionIndex: event.transaction.transactionIndex,
    transactionHash: event.transaction.hash,
  });
});

ponder.on("Token:Transfer", async ({ event, context }) => {
  await context.db.insert(logs).values({
    blockNumber: event.block.number,
    logIndex: event.log.logIndex,
    transactionHash: event.transaction.hash,
    data: event.log.data,
  });
});
