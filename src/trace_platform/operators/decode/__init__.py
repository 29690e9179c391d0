"""Contract ABIs, and logs and calls decoded by them: over whole Arrow columns, without Spark."""
