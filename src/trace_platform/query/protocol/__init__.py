"""What the service and the confined process say to each other."""
