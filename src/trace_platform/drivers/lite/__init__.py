"""The embedded profile: everything from pip, on one machine."""
