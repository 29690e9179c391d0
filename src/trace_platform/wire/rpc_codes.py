"""The error codes of JSON-RPC: what nodes say to the egress, and it to those who ask it."""

from __future__ import annotations

import re

# Of JSON-RPC itself.
NOT_JSON = -32700
NOT_A_CALL = -32600
METHOD_MISSING = -32601
BAD_PARAMS = -32602
# Of nodes: a contract's revert, and history that was thrown away (EIP-4444).
REVERTED = 3
PRUNED = 4444
# That clients know from nodes and providers. The last two limits are HTTP's own.
LIMITED = -32005
LIMITS = frozenset({LIMITED, -32029, 429, 503})
TOO_LARGE = -32008
TOO_LARGES = frozenset({TOO_LARGE, -32003})
# Of the egress, in the range that JSON-RPC leaves to servers.
UNAVAILABLE = -32050
METHOD_REFUSED = -32052
DISAGREE = -32055
# No code tells it: what is asked for is not at this node, or not yet.
NOT_THERE_WORDS = re.compile(
    r"(header|block|transaction|receipts?) (was )?not found|unknown block"
    r"|could not find block|after last accepted block|request timed out",
    re.I,
)
