"""What nobody needs any more is forgotten and deleted."""
