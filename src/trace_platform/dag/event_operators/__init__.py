"""What the Dispatcher's own operators say of themselves; `dispatcher/operators` runs them."""
