"""Cron sources: asks the Dispatcher what is due and tells it the ticks. It remembers nothing."""
