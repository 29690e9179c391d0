"""The Spark side of operators. pyspark is imported inside functions only: it is slow to load."""
