"""What people look at: health, metrics, alerts, and why something waits."""
