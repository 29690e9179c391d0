"""How `Authorization` may be written: every service reads it alike."""

from __future__ import annotations

# What is sent, with the token in it, and whether that opens the door.
READINGS = [
    ("Bearer {}", True),
    ("bearer {}", True),
    ("BEARER {}", True),
    ("{}", False),
    ("Bearer{}", False),
    ("Basic {}", False),
    ("Bearer Bearer {}", False),
    ("Bearer {} and more", False),
    ("Bearer", False),
]
