"""Events are recorded, routed and announced."""
