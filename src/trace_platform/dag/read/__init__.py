"""From the text of a DAG file to the model, with every error at its line."""
