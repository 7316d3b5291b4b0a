"""Settings of clients for programs in Python that have nothing to do with what is tested."""

from __future__ import annotations

from typing import Any, Final

ASKS_AGAIN: Final[dict[str, Any]] = {"metadata_max_age_ms": 1_000}
"""A consumer of kafka-python 3.0.12 that gets its topics while its first request for metadata is under way, which named
none, takes that answer for the one to its topics, and asks again when metadata are too old: after five minutes.
"""
