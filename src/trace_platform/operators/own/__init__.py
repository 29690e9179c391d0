"""Operators that are not Trace's own: of installed packages, and of files beside a DAG."""
