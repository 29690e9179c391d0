"""The outside world, behind Protocols. `lite` is the embedded profile."""
