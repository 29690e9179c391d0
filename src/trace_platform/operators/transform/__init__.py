"""`sql_transform` and `python_transform`: how they move forward, what they read, their rows."""
