"""What others on this host, and roles that were stolen, can do to an instance that runs."""
