"""Processes of an instance: started, watched, stopped, logged."""
