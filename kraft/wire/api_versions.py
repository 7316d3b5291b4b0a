"""What clients are told about: the APIs of a listener, each with a range of versions.

Clients choose the highest version that both sides have, and take the list as a whole for the age of the broker. What
is listed is for the listener to say; here stands from which version to which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.schema.api_versions import ApiVersion
from kraft.wire.versions import Versions

_ADVERTISED: Final[dict[int, Versions]] = {
    # librdkafka takes a range that begins later for a broker that knows no compression but gzip, and then sends
    # batches uncompressed without a word. Versions 0 to 2 are listed, and refused when one is sent. (KAFKA-18659)
    ApiKey.PRODUCE: Versions(0, 13),
    # Version 6 is that of two-phase commit (KIP-939), which is not served.
    ApiKey.INIT_PRODUCER_ID: Versions(0, 5),
}


def advertised_versions(api_key: int) -> Versions:
    """Raises KeyError for a number that is no `ApiKey`."""
    return _ADVERTISED.get(api_key) or request_type(api_key).versions


def is_served(api_key: int, version: int) -> bool:
    """Whether a request of that version is advertised and can be decoded. Raises KeyError as above."""
    return version in advertised_versions(api_key) and version in request_type(api_key).versions


def advertised(api_keys: Iterable[int]) -> tuple[ApiVersion, ...]:
    """The list for an answer to ApiVersions, in the order of the keys."""
    ranges = [(api_key, advertised_versions(api_key)) for api_key in sorted(api_keys)]
    return tuple(
        ApiVersion(api_key=api_key, min_version=versions.first, max_version=versions.last)
        for api_key, versions in ranges
    )
