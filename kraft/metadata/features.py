"""Feature levels: the ones that this version of Kraft supports, and the one that the cluster uses.

A level fixes which records and requests every node has to understand. An operator raises the level once all nodes run a
version that supports it; it never rises by itself, so that nodes of the previous version can still be started until
then. Source: KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.features import FeatureRange

METADATA_VERSION: Final = "metadata.version"
"""1: the first records. 2: also records of operator fences, feature levels, broker configs and client quotas, and the
fields of partition records for reassignments, which a node of the first version would ignore. 3: also users. 4: also
ACLs. 5: also subscriptions to the metrics of clients."""

ELIGIBLE_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
"""0: no ELR. 1: partitions have an ELR and a last known ELR (KIP-966)."""

GROUP_VERSION: Final = "group.version"
"""0: groups of the classic protocol only. 1: also groups of the consumer protocol (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""0: records of `__transaction_state` as in old versions of Kafka. 1: flexible records. 2: the end of a transaction
bumps the producer epoch, and leaders add partitions to transactions (KIP-890)."""

SETTINGS_AS_METADATA: Final = 2
"""The level of metadata.version that has records for operators' settings."""

USERS_AS_METADATA: Final = 3
"""The level of metadata.version that has users, whom a node of an earlier version would not know."""

ACLS_AS_METADATA: Final = 4
"""The level of metadata.version that has ACLs, which a node of an earlier version would not obey."""

CLIENT_METRICS_AS_METADATA: Final = 5
"""The level of metadata.version that has subscriptions to the metrics of clients."""

_RANGES: Final = (
    FeatureRange(feature=GROUP_VERSION, min_level=0, max_level=1),
    FeatureRange(feature=METADATA_VERSION, min_level=1, max_level=CLIENT_METRICS_AS_METADATA),
    FeatureRange(feature=TRANSACTION_VERSION, min_level=0, max_level=2),
    FeatureRange(feature=ELIGIBLE_REPLICAS_VERSION, min_level=0, max_level=1),
)

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {each.feature: each for each in _RANGES}
"""The levels that this version supports. Level 0 of a feature means that it is off."""


class UnsupportedFeatureLevel(KraftError):
    """The cluster uses a level that this version of Kraft does not support, so this node must not take part."""


def level_of(image: MetadataImage, feature: str) -> int:
    """Return the level that the cluster uses; the lowest one if none was set."""
    lowest = SUPPORTED_FEATURES[feature].min_level if feature in SUPPORTED_FEATURES else 0
    return image.features.get(feature, lowest)


def range_of(features: Iterable[FeatureRange], feature: str) -> FeatureRange:
    """Return the levels that a node's registration names; a node that named none is of the first version."""
    for each in features:
        if each.feature == feature:
            return each
    lowest = SUPPORTED_FEATURES[feature].min_level if feature in SUPPORTED_FEATURES else 0
    return FeatureRange(feature=feature, min_level=lowest, max_level=lowest)


def keeps_eligible_replicas(image: MetadataImage) -> bool:
    """Return whether partitions have an ELR: every node then understands its records."""
    return level_of(image, ELIGIBLE_REPLICAS_VERSION) > 0


def require_settings(image: MetadataImage, what: str) -> None:
    """Raise Refusal UNSUPPORTED_VERSION while some node of the cluster may not understand records of level 2."""
    _require_metadata_version(image, SETTINGS_AS_METADATA, what)


def require_users(image: MetadataImage, what: str) -> None:
    """Raise Refusal UNSUPPORTED_VERSION while some node of the cluster may not understand records of users."""
    _require_metadata_version(image, USERS_AS_METADATA, what)


def require_acls(image: MetadataImage, what: str) -> None:
    """Raise Refusal UNSUPPORTED_VERSION while some node of the cluster may not understand records of ACLs."""
    _require_metadata_version(image, ACLS_AS_METADATA, what)


def require_client_metrics(image: MetadataImage, what: str) -> None:
    """Raise Refusal UNSUPPORTED_VERSION while some node may not understand records of client metrics."""
    _require_metadata_version(image, CLIENT_METRICS_AS_METADATA, what)


def _require_metadata_version(image: MetadataImage, needed: int, what: str) -> None:
    level = level_of(image, METADATA_VERSION)
    if level < needed:
        problem = (
            f"{what} needs {METADATA_VERSION} {needed}, but the cluster is at {level}: once every node runs this "
            f"version, run kraft features upgrade --feature {METADATA_VERSION}={needed}"
        )
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, problem)


def require_groups(image: MetadataImage, what: str) -> None:
    """Raise Refusal UNSUPPORTED_VERSION while some node of the cluster may not understand records of groups."""
    if level_of(image, GROUP_VERSION) < 1:
        problem = f"{what} needs {GROUP_VERSION} 1: once every node runs this version, run kraft features upgrade"
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"{problem} --feature {GROUP_VERSION}=1")


def check_levels(image: MetadataImage) -> None:
    """Raise UnsupportedFeatureLevel if the cluster uses a level that this version does not support."""
    for feature, level in image.features.items():
        supported = range_of(SUPPORTED_FEATURES.values(), feature)
        if not supported.min_level <= level <= supported.max_level:
            raise UnsupportedFeatureLevel(
                f"the cluster is at level {level} of {feature}, but this version of Kraft supports {words(supported)}: "
                "install a version on this node that supports it"
            )


def words(supported: FeatureRange) -> str:
    if supported.min_level == supported.max_level:
        return f"{supported.max_level} only"
    return f"{supported.min_level} to {supported.max_level}"
