from __future__ import annotations

import pytest
from msgspec.structs import replace

from kraft.metadata.broker_decisions import register_broker
from kraft.metadata.feature_decisions import update_features
from kraft.metadata.features import (
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    UnsupportedFeatureLevel,
    check_levels,
    level_of,
)
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureRange
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.cluster_images import TODAY, cluster, earlier_cluster, registration


def to(level: int, feature: str = METADATA_VERSION, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=feature, max_version_level=level)
    return UpdateFeaturesRequest(feature_updates=(update,), validate_only=validate_only)


def test_a_cluster_without_levels_is_at_the_first_ones() -> None:
    image = earlier_cluster()
    assert {feature: level_of(image, feature) for feature in SUPPORTED_FEATURES} == {
        "eligible.leader.replicas.version": 0,
        "group.version": 0,
        "metadata.version": 1,
        "transaction.version": 0,
    }


def test_a_level_that_a_controller_does_not_support_is_refused() -> None:
    image = earlier_cluster(TODAY)
    earlier = [FeatureRange(feature=METADATA_VERSION, min_level=1, max_level=1)]
    for answer in (earlier, []):
        with pytest.raises(Refusal, match="because controller 9 supports 1 only: upgrade it first") as refused:
            update_features(image, to(2), {8: TODAY, 9: answer})
        assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert update_features(image, to(2), {8: TODAY, 9: TODAY}).records != []


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=2, upgrade_type=4), "unknown upgrade type 4"),
        (FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=2, upgrade_type=0), "unknown upgrade type 0"),
        (FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=-1), "level -1 is negative"),
    ],
)
def test_an_update_that_means_nothing_is_refused_before_others_are_looked_at(
    update: FeatureUpdateKey, words: str
) -> None:
    request = UpdateFeaturesRequest(feature_updates=(*to(2, "no.such.feature").feature_updates, update))
    with pytest.raises(Refusal, match=words) as refused:
        update_features(earlier_cluster(TODAY), request)
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_registered_broker_that_does_not_support_the_level_is_named_even_when_it_is_fenced() -> None:
    image = earlier_cluster(TODAY, [])
    with pytest.raises(Refusal, match=r"broker 2 supports 1 only: upgrade it first, or unregister it") as refused:
        update_features(image, to(2))
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (to(6), "the active controller supports 1 to 5"),
        (to(1), "metadata.version is at level 5 and cannot go down to 1"),
        (
            to(3, "transaction.version"),
            "transaction.version cannot be at level 3, because the active controller supports 0 to 2",
        ),
        (
            to(1, "kraft.version"),
            "there is no feature 'kraft.version': choose one of eligible.leader.replicas.version, group.version",
        ),
    ],
)
def test_levels_that_cannot_be_are_refused(request_: UpdateFeaturesRequest, words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        update_features(cluster(1), request_)
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION


def test_one_update_that_is_refused_refuses_them_all() -> None:
    both = UpdateFeaturesRequest(
        feature_updates=(*to(2).feature_updates, *to(3, "transaction.version").feature_updates)
    )
    with pytest.raises(Refusal, match=r"transaction\.version"):
        update_features(earlier_cluster(TODAY), both)
    twice = UpdateFeaturesRequest(feature_updates=(*to(2).feature_updates, *to(1).feature_updates))
    with pytest.raises(Refusal, match="is in the request 2 times"):
        update_features(earlier_cluster(TODAY), twice)


def test_a_broker_that_does_not_support_the_clusters_level_is_not_let_in() -> None:
    outdated = replace(registration(4), features=[])
    with pytest.raises(Refusal, match=r"broker 4 supports group\.version 0 only, but the cluster is at level 1"):
        register_broker(cluster(1), outdated, session_is_alive=False)
    assert register_broker(earlier_cluster(TODAY), outdated, session_is_alive=False).records


def test_a_level_above_our_own_support_is_not_lived_with() -> None:
    check_levels(cluster(1))
    for feature, level in ((METADATA_VERSION, 9), ("share.version", 1)):
        with pytest.raises(UnsupportedFeatureLevel, match=f"at level {level} of {feature}, but this version of Kraft"):
            check_levels(cluster(1).replay([FeatureLevelSet(feature=feature, level=level)]))
