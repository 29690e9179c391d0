"""What the kernel takes away from a process that reads a stranger's SQL."""
