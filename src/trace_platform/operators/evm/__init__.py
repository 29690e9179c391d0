"""EVM chains: JSON-RPC block ranges to Arrow tables, and the `evm` Spark data source."""
