"""Pure words and rules: no I/O, no framework."""
