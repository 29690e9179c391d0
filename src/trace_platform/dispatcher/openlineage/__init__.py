"""What ran, told to whoever collects lineage, as OpenLineage events."""
