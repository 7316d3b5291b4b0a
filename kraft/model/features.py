"""DescribeFeatures: the feature levels that nodes support, and those that the cluster uses.

Kafka tells them to clients in ApiVersions.

Source: KIP-584 (versioning of features), KIP-1022 (features besides metadata.version).
"""

from __future__ import annotations

from msgspec import Struct


class FeatureRange(Struct, frozen=True, kw_only=True):
    """Levels of one feature that a node's version supports."""

    feature: str
    min_level: int
    max_level: int


class FeatureDescription(Struct, frozen=True, kw_only=True):
    """Feature with `finalized_level`, which the cluster uses, and the levels that every registered broker supports.

    If the brokers have no level in common, `max_level` is below `min_level`.
    """

    feature: str
    min_level: int
    max_level: int
    finalized_level: int


class DescribeFeaturesRequest(Struct, frozen=True, kw_only=True):
    pass


class DescribeFeaturesResponse(Struct, frozen=True, kw_only=True):
    """Features of the cluster; `epoch` is the index of the metadata entry as of which they are described."""

    epoch: int
    features: list[FeatureDescription]
