"""Programs that are measured: each is run as a process, see bench/subject.py."""
