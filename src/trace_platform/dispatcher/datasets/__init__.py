"""Datasets as readers see them: resolved, listed, judged, traced."""
