"""The parts of `block_follower`: what is known of a chain, what a node says of it, and what to do
about the difference."""
