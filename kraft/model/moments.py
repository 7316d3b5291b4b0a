"""Times in ISO 8601, as people type them: `2026-11-22T10:00:00.000Z`, `PT1H30M`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?P<time>T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d+))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MS: Final = {"weeks": 604_800_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_datetime(text: str) -> int:
    """Return milliseconds since 1970; a text without an offset from UTC is in UTC, as in Kafka. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:100]!r} is not a date and time: expected YYYY-MM-DD[THH:MM[:SS.sss]]") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    since = aware - _EPOCH
    # Integers, because a float loses milliseconds; floor division is also right before 1970.
    timestamp_ms = (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
    if timestamp_ms < 0:
        raise ValueError(f"{text[:100]!r} is before 1970: no record is that old")
    return timestamp_ms


def parse_duration(text: str) -> int:
    """Return milliseconds. Raises ValueError, also for years and months, whose length varies."""
    found = _DURATION.fullmatch(text.strip())
    parts = {unit: int(found[unit]) for unit in _MS if found[unit]} if found else {}
    if found is None or not parts or (found["time"] or "").upper() == "T":
        raise ValueError(
            f"{text[:100]!r} is not a duration: expected PnDTnHnMnS such as PT1H30M; years and months are not supported"
        )
    fraction_ms = int(((found["fraction"] or "") + "000")[:3])
    return sum(count * _MS[unit] for unit, count in parts.items()) + fraction_ms
