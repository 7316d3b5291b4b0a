"""Time in the next turn of the event loop that a piece of work in this one leads to."""

from __future__ import annotations

from typing import Final

REPLY_S: Final = 0.0001
"""A reply is encoded and sent."""

FLUSH_S: Final = 0.0005
"""What a shard has decided is appended, as one batch of its own."""
