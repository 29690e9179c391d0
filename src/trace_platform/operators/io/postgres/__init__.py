"""Hot tables as DataFrames."""
