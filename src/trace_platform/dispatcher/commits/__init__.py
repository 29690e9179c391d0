"""What an attempt wrote is verified and becomes current."""
