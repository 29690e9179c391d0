"""An egress process claims the keys that it uses, renews the claim, or gives them back."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import rpc_keys
from trace_platform.wire.rpc import KeyClaimRequest, KeyClaimResponse


async def claim_rpc_keys(state: Database, request: KeyClaimRequest) -> KeyClaimResponse:
    """Each key has one holder at a time: what another one has is left out of the answer."""
    keys = sorted(set(request.keys))
    async with state.statement() as tx:
        if request.lease_s == 0:
            await rpc_keys.release(tx, request.holder, keys)
            return KeyClaimResponse(granted=[])
        granted = await rpc_keys.claim(tx, request.holder, keys, request.lease_s)
    return KeyClaimResponse(granted=sorted(granted))
