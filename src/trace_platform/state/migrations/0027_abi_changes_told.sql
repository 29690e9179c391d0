-- A generation that gave way before it decoded again is not told of the change any more.
GRANT DELETE ON abi_changes_told TO trace_dispatcher;
