"""What is done again: invalidations and backfills."""
