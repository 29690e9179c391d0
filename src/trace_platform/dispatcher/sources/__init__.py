"""Sources run, tick, are called and triggered."""
