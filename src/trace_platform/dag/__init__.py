"""The DAG language: what a DAG file is made of, how it is read, what is checked before a deploy.

It knows no control plane.
"""
