"""Version ranges of the APIs that a listener advertises to clients.

Clients choose the highest version that both sides have, and guess the broker's age from the whole list. The listener
decides which APIs it lists; this module gives the range of versions of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.schema.api_versions import ApiVersion
from kraft.wire.versions import Versions

_ADVERTISED: Final[dict[int, Versions]] = {
    # If the range began later, librdkafka would assume a broker without compression other than gzip, and silently send
    # uncompressed batches. Versions 0 to 2 are listed, and refused when one is sent. (KAFKA-18659)
    ApiKey.PRODUCE: Versions(0, 13),
    # Version 6 is for two-phase commit (KIP-939), which is not supported.
    ApiKey.INIT_PRODUCER_ID: Versions(0, 5),
}


def advertised_versions(api_key: int) -> Versions:
    """Return the versions that clients see. Raises KeyError for a number that is not an `ApiKey`."""
    return _ADVERTISED.get(api_key) or request_type(api_key).versions


@lru_cache(1_024)
def is_served(api_key: int, version: int) -> bool:
    """Return whether a request of that version is advertised and can be decoded. Raises KeyError as above."""
    return version in advertised_versions(api_key) and version in request_type(api_key).versions


def advertised(api_keys: Iterable[int]) -> tuple[ApiVersion, ...]:
    """Return the list for an ApiVersions response, sorted by key."""
    ranges = [(api_key, advertised_versions(api_key)) for api_key in sorted(api_keys)]
    return tuple(
        ApiVersion(api_key=api_key, min_version=versions.first, max_version=versions.last)
        for api_key, versions in ranges
    )
