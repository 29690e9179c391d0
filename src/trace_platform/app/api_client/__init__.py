"""The services of a running instance, as the commands ask them."""
