"""The one row of a webhook's delivery: columns that are known before anything is delivered."""

from __future__ import annotations

from trace_platform.wire.manifest import ManifestColumn

DELIVERY_COLUMNS = [
    ManifestColumn(name="webhook_id", type="string", nullable=True),
    ManifestColumn(name="received_at", type="timestamp[us, tz=UTC]", nullable=True),
    ManifestColumn(name="body", type="string", nullable=True),
]
