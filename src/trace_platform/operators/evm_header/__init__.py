"""What a block's hash and roots promise, computed anew from a node's answers and stored rows."""
