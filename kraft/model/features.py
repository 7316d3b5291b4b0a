"""DescribeFeatures and UpdateFeatures: the feature levels that nodes support, and those that the cluster uses.

Source: KIP-584 (versioning of features), KIP-1022 (features besides metadata.version).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """Levels of one feature that a node's version supports."""

    feature: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """Feature with `finalized_level`, which the cluster uses, and the levels that every registered broker supports.

    If the brokers have no level in common, `max_level` is below `min_level`.
    """

    feature: str
    min_level: int
    max_level: int
    finalized_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFeaturesRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFeaturesResponse:
    """Features of the cluster; `epoch` is the index of the metadata entry as of which they are described."""

    epoch: int
    features: list[FeatureDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    feature: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """Request to make all of these updates, or none."""

    updates: list[FeatureUpdate]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """Features whose level changed, with the new level."""

    changed: list[FeatureUpdate]
