"""Feature levels as nodes support them and as a cluster has settled on them, and asking to change them.

Source: KIP-584 (versioning of features), KIP-1022 (features beside metadata.version).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The levels of one feature that a node's version can live with."""

    feature: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """`finalized_level` is acted on by every node; every registered broker supports `min_level` to `max_level`.

    Without a common level `max_level` is below `min_level`.
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
    """`epoch` is the metadata entry as of which this holds."""

    epoch: int
    features: list[FeatureDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    feature: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """All of the updates, or none."""

    updates: list[FeatureUpdate]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """The features whose level is another one now, with that level; those that had it before are left out."""

    changed: list[FeatureUpdate]
