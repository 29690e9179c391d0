"""What checks of rows found, and from whom that keeps them."""
