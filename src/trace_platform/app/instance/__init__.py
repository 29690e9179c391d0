"""What an instance is on disk: its home, settings, databases, users and secrets."""
