"""What is checked of a DAG that can be read, before an instance is asked."""
