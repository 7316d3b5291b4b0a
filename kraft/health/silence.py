"""Why a broker gave no answer, in words."""

from __future__ import annotations

from kraft.model.errors import KraftError


def why_silent(error: KraftError) -> str:
    """Return why the one broker that was asked did not answer. The client's own text is about any broker."""
    # Imported late, because commands that only print their help are fast without it.
    from kraft.client.cluster.any_broker import NoBrokerReachable

    if not isinstance(error, NoBrokerReachable):
        return str(error)
    return "; ".join(f"{address}: {reason}" for address, reason in error.reasons.items())
