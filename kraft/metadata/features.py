"""Levels of features: which ones this version of Kraft can live with, and on which one the cluster acts.

A level is a promise about records and requests that every node has to understand. A cluster goes on to the next one
when all of its nodes run a version that supports it, and by an operator's word, not by itself: until then, nodes of
the version before can still be started in it. Source: KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.features import FeatureRange

METADATA_VERSION: Final = "metadata.version"
"""1: the first records. 2: also those that operators' fences, feature levels, configs of brokers and quotas are, and
the fields that reassignments have in those of partitions, which a node of the first version would overlook."""

ELIGIBLE_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
"""0: none are kept. 1: partitions have an ELR and a last known ELR (KIP-966)."""

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"

SETTINGS_AS_METADATA: Final = 2
"""The level of metadata.version with the records of operators' settings."""

_RANGES: Final = (
    FeatureRange(feature=GROUP_VERSION, min_level=0, max_level=0),
    FeatureRange(feature=METADATA_VERSION, min_level=1, max_level=SETTINGS_AS_METADATA),
    FeatureRange(feature=TRANSACTION_VERSION, min_level=0, max_level=0),
    FeatureRange(feature=ELIGIBLE_REPLICAS_VERSION, min_level=0, max_level=1),
)

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {each.feature: each for each in _RANGES}
"""Of this version. Level 0 of a feature is: not there."""


class UnsupportedFeatureLevel(KraftError):
    """The cluster acts on a level that this version of Kraft does not know: its node must not take part."""


def level_of(image: MetadataImage, feature: str) -> int:
    """The level that the cluster acts on; the lowest one as long as none was set."""
    lowest = SUPPORTED_FEATURES[feature].min_level if feature in SUPPORTED_FEATURES else 0
    return image.features.get(feature, lowest)


def range_of(features: Iterable[FeatureRange], feature: str) -> FeatureRange:
    """What a node supports that registered with `features`; one that named none is of the first version."""
    for each in features:
        if each.feature == feature:
            return each
    lowest = SUPPORTED_FEATURES[feature].min_level if feature in SUPPORTED_FEATURES else 0
    return FeatureRange(feature=feature, min_level=lowest, max_level=lowest)


def keeps_eligible_replicas(image: MetadataImage) -> bool:
    """Whether partitions have an ELR: every node then reads the records that say so."""
    return level_of(image, ELIGIBLE_REPLICAS_VERSION) > 0


def require_settings(image: MetadataImage, what: str) -> None:
    """Raises Refusal UNSUPPORTED_VERSION while records of level 2 would stop or mislead some node of the cluster."""
    level = level_of(image, METADATA_VERSION)
    if level < SETTINGS_AS_METADATA:
        problem = (
            f"{what} needs {METADATA_VERSION} {SETTINGS_AS_METADATA} and the cluster is at {level}: once every node "
            f"runs this version, kraft features upgrade --feature {METADATA_VERSION}={SETTINGS_AS_METADATA}"
        )
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, problem)


def check_levels(image: MetadataImage) -> None:
    """Raises UnsupportedFeatureLevel when the cluster acts on a level that this version does not know."""
    for feature, level in image.features.items():
        supported = range_of(SUPPORTED_FEATURES.values(), feature)
        if not supported.min_level <= level <= supported.max_level:
            raise UnsupportedFeatureLevel(
                f"the cluster is at level {level} of {feature} and this version of kraft supports {words(supported)}: "
                "run a version here that supports it"
            )


def words(supported: FeatureRange) -> str:
    if supported.min_level == supported.max_level:
        return f"{supported.max_level} only"
    return f"{supported.min_level} to {supported.max_level}"
