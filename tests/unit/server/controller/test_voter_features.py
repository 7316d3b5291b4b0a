from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerId
from kraft.rpc.identity import Identity, identity_service
from kraft.rpc.peers import dial_openly
from kraft.server.config.values import CONTROLLER, Voter
from kraft.server.controller.voter_features import VoterFeatures
from tests.support.cluster_images import cluster
from tests.support.rpc_servers import served

FEATURES = [FeatureRange(feature=METADATA_VERSION, min_level=1, max_level=1)]


def voter(node_id: int, address: str) -> Voter:
    host, _, port = address.partition(":")
    return Voter(BrokerId(node_id), host, int(port))


def asked(
    *voters: int, answering_id: int = 2, own_id: int = 1, image: MetadataImage = EMPTY_IMAGE
) -> Mapping[int, Sequence[FeatureRange]]:
    """Return the features found when all these voters are at the address of the node `answering_id`."""
    identity = Identity(
        cluster_id="c", node_id=BrokerId(answering_id), process_id=bytes(16), features=FEATURES, listener=CONTROLLER
    )

    async def ask() -> Mapping[int, Sequence[FeatureRange]]:
        async with served(identity_service(identity)) as (_, address):
            known = [voter(node_id, address) for node_id in voters]
            return await VoterFeatures(known, own_id, dial_openly).of_controllers_only(image)

    return asyncio.run(ask())


def test_the_other_controllers_are_asked() -> None:
    assert asked(1, 2) == {2: FEATURES}


def test_a_controller_that_is_a_broker_reported_its_features_when_it_registered() -> None:
    assert asked(1, 2, 3, image=cluster(3)) == {2: FEATURES}


def test_a_single_controller_asks_no_other() -> None:
    assert asked(1) == {}


def test_another_node_at_a_controllers_address_does_not_count_as_its_answer() -> None:
    with pytest.raises(
        Refusal, match=r"controller 3@127\.0\.0\.1:\d+ does not report .* \(node 2 answers at its address\)"
    ):
        asked(1, 3)


def test_a_controller_that_does_not_answer_may_be_of_any_version() -> None:
    others = VoterFeatures([voter(1, "127.0.0.1:1"), voter(2, "127.0.0.1:2")], 1, dial_openly)
    with pytest.raises(
        Refusal, match=r"controller 2@127\.0\.0\.1:2 does not report which levels it supports"
    ) as refused:
        asyncio.run(others.of_controllers_only(EMPTY_IMAGE))
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert "start it with a version that does, or remove it from controller.quorum.voters" in refused.value.message
