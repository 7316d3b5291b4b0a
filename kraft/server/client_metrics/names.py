"""Names of series and labels from those in OTLP.

Clients choose theirs. So that none can pass for a series of the node, all begin with PREFIX.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

PREFIX: Final = "kafka_client_"
_KAFKAS: Final = "org.apache.kafka."
_NO_LETTER: Final = re.compile(r"[^a-zA-Z0-9_]")
_NAMES_KEPT: Final = 4_096

NAME_CHARACTERS_MAX: Final = 200

_OWN: Final = frozenset({"client_instance_id", "client_id"})


@lru_cache(_NAMES_KEPT)
def series_name(name: str) -> str | None:
    """Return `kafka_client_producer_record_send_rate` for `org.apache.kafka.producer.record.send.rate`.

    None for a name that is empty or too long.
    """
    own = name.removeprefix(_KAFKAS)
    return PREFIX + _NO_LETTER.sub("_", own) if 0 < len(own) <= NAME_CHARACTERS_MAX else None


@lru_cache(_NAMES_KEPT)
def label_name(key: str) -> str | None:
    """Return `node_id` for `node.id`; an empty name for what the node says itself; None if it cannot be one."""
    name = _NO_LETTER.sub("_", key).lstrip("_0123456789")
    if not name or len(key) > NAME_CHARACTERS_MAX:
        return None
    return "" if name in _OWN else name
