"""The documents, and with `python -m docs.generate` the command that writes those in reference/."""
