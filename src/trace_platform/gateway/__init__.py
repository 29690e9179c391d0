"""The one public door of an instance: console files, the user API, live events."""
