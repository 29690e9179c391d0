"""The life of a task: claimed, kept alive, completed, retried, canceled."""
