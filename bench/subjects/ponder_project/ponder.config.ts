import { createConfig } from "ponder";
import { parseAbi } from "viem";

const accounts = process.env.REORGS_ACCOUNTS!.split(",") as `0x${string}`[];

export default createConfig({
  database: { kind: "postgres", connectionString: process.env.REORGS_DATABASE },
  chains: {
    node: {
      id: Number(process.env.REORGS_CHAIN_ID),
      rpc: process.env.REORGS_RPC,
      disableCache: true,
    },
  },
  blocks: { Every: { chain: "node", interval: 1, startBlock: 0 } },
  accounts: { Senders: { chain: "node", address: accounts, startBlock: 0 } },
  contracts: {
    Token: {
      chain: "node",
      abi: parseAbi(["event Transfer(address indexed from, address indexed to, uint256 value)"]),
      address: process.env.REORGS_TOKEN as `0x${string}`,
      startBlock: 0,
    },
  },
});
