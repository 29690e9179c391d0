"""Job implementations. `contract` is what an operator sees; `registry` finds it by name."""
