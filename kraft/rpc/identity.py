"""Who answers at an address: the answering side, and the calling one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import grpc.aio

from kraft.model.feature_requests import FeatureRange
from kraft.model.ids import BrokerId
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import identity_pb2, identity_pb2_grpc
from kraft.rpc.peers import answer
from kraft.rpc.services import Context

PROCESS_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One listener of one process of a node."""

    cluster_id: str
    node_id: BrokerId
    process_id: bytes
    """PROCESS_ID_BYTES of chance, drawn anew at each start."""

    features: list[FeatureRange]
    """What its version supports."""

    listener: str


_IDENTITY: Final = Mapping(Identity, identity_pb2.IdentifyResponse)


class IdentityService(identity_pb2_grpc.IdentityServicer):
    def __init__(self, identity: Identity) -> None:
        self._answer = _IDENTITY.to_message(identity)

    async def Identify(self, request: identity_pb2.IdentifyRequest, context: Context) -> identity_pb2.IdentifyResponse:
        return self._answer

    def add_to(self, server: grpc.aio.Server) -> None:
        identity_pb2_grpc.add_IdentityServicer_to_server(self, server)


async def who_answers(address: str, channel: grpc.aio.Channel, timeout_s: float) -> Identity:
    """Raises Unreachable, also for somebody who does not know the question."""
    stub = identity_pb2_grpc.IdentityStub(channel)
    return _IDENTITY.to_value(await answer(address, stub.Identify, identity_pb2.IdentifyRequest(), timeout_s))
