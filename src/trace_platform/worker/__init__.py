"""The platform worker: poll, claim, heartbeat, run, complete. It decides nothing."""
