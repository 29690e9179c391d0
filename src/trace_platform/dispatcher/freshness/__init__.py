"""What an attempt reads, and which ranges it therefore does."""
