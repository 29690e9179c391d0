"""ABIs that users gave: added, shown, removed, and what is decoded again because of that."""
