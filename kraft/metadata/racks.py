"""Racks and the load of their brokers: replicas are spread over racks evenly, however many brokers each has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

_NAMED_MAX: Final = 10


def uneven_racks(racks: Iterable[str]) -> str:
    """Return that racks have unequal numbers of brokers, and the remedy; empty if they have equally many.

    `racks` has the rack of each broker; brokers without one, whose rack is empty, share one.
    """
    sizes = Counter(racks)
    if len(set(sizes.values())) <= 1:
        return ""
    named = [f"{rack or 'no rack'}: {count}" for rack, count in sorted(sizes.items())]
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return (
        f"racks have unequal numbers of brokers ({', '.join(named[:_NAMED_MAX])}{more}), so topics with several "
        "replicas load the brokers of small racks more: put equally many brokers into each rack"
    )
