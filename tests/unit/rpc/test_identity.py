from __future__ import annotations

import asyncio

import pytest

from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerId
from kraft.rpc.identity import Identity, identity_service, who_answers
from kraft.rpc.peers import Unreachable
from tests.support.rpc_servers import public_service, served

FEATURES = [FeatureRange(feature="metadata.version", min_level=1, max_level=2)]
IDENTITY = Identity(
    cluster_id="kJ2Yk0mVT0ma0wV2Yk0mVQ",
    node_id=BrokerId(7),
    process_id=bytes(range(16)),
    features=FEATURES,
    listener="GRPC",
)


def test_identify_returns_the_answering_nodes_identity() -> None:
    async def ask() -> Identity:
        async with served(identity_service(IDENTITY)) as (connections, address):
            return await who_answers(address, connections.channel(address), timeout_s=10)

    assert asyncio.run(ask()) == IDENTITY


def test_a_server_without_identify_is_unreachable() -> None:
    async def ask() -> None:
        async with served(public_service()) as (connections, address):
            with pytest.raises(Unreachable, match="UNIMPLEMENTED"):
                await who_answers(address, connections.channel(address), timeout_s=10)

    asyncio.run(ask())
