"""The control plane. One file per verb, each one transaction; loops are verbs on a timer."""
