"""Identify call: asks which process of which node answers at an address. Both ends."""

from __future__ import annotations

from typing import Final

import grpc.aio
from msgspec import Struct

from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerId
from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import identity_pb2
from kraft.rpc.peers import Peer
from kraft.rpc.services import Service

PROCESS_ID_BYTES: Final = 16


class Identity(Struct, frozen=True, kw_only=True):
    """Identity of one listener of one process of a node."""

    cluster_id: str
    node_id: BrokerId
    process_id: bytes
    """PROCESS_ID_BYTES random bytes, new at each start."""

    features: list[FeatureRange]
    """The feature levels that its version supports."""

    listener: str


class IdentifyRequest(Struct, frozen=True, kw_only=True):
    pass


IDENTIFY: Final = Call(service_of(identity_pb2.DESCRIPTOR, "Identity"), "Identify", IdentifyRequest, Identity)


def identity_service(identity: Identity) -> Service:
    async def identify(_: IdentifyRequest) -> Identity:
        return identity

    return Service(IDENTIFY.served_by(identify))


async def who_answers(address: str, channel: grpc.aio.Channel, timeout_s: float) -> Identity:
    """Ask for the identity of what answers at `address`. Raises Unreachable, also if it does not have this call."""
    return await Peer(address, channel).call(IDENTIFY, IdentifyRequest(), timeout_s)
