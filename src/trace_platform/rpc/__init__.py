"""The RPC egress: every question to a chain's nodes goes through this process, and no other one
knows where they are or with which keys they are asked."""
