"""The requests of the matrix of access over gRPC, and those that Kafka does not have."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kraft.client.cluster.secure_dialling import dialling
from kraft.client.model.security import ClientSecurity
from kraft.metadata.described_topics import DescribeTopicsRequest
from kraft.model import brokers, transactions
from kraft.model import fetch as fetching
from kraft.model import produce as producing
from kraft.model.clients import DescribeClientsRequest
from kraft.model.describe_quorum import QuorumDescriptionRequest
from kraft.model.errors import Refusal
from kraft.model.features import DescribeFeaturesRequest
from kraft.model.group_lags import DescribeGroupLagsRequest
from kraft.model.password import Password
from kraft.model.plain_records import FetchRecordsRequest, PlainRecord, ProduceRecordsRequest
from kraft.rpc.call import AnyCall, Call, Stream
from kraft.rpc.peers import Peer, PeerConnections, Unreachable
from kraft.sasl.client import PasswordLogin
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.apis.api import VisibleTo
from kraft.wire.schema.api_versions import ApiVersionsRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from tests.end_to_end.kafka.differences import access_clients as clients
from tests.end_to_end.kafka.differences.access_rows import Row
from tests.end_to_end.kafka.differences.peer import PASSWORD
from tests.unit.server.access.cases import ROWS
from tests.unit.server.access.needs import TOPIC, TRANSACTION

_DEADLINE_S: Final = 60.0
_RETRY_S: Final = 0.1
_AT_ONCE: Final = 10
"""Calls and logins that a node has at a time."""

_NO_BROKER: Final = 99
_TIMEOUT_MS: Final = 5_000

ONLY_GRPC: Final[dict[str, Any]] = {
    "DescribeTopics": DescribeTopicsRequest(topics=[TOPIC]),
    "FetchRecords": FetchRecordsRequest(topic=TOPIC, partition=0, fetch_offset=0, max_wait_ms=0, max_bytes=1_000),
    "ProduceRecords": ProduceRecordsRequest(
        topic=TOPIC, partition=0, acks=-1, timeout_ms=_TIMEOUT_MS, records=[PlainRecord(value=b"x")]
    ),
    "InitTemporaryProducerId": InitProducerIdRequest(
        transactional_id=clients.NEW_TRANSACTION, transaction_timeout_ms=1_000
    ),
    "CommitTransactions": transactions.CommitTransactionsRequest(
        transactional_id=TRANSACTION,
        sequence=1,
        transactions=(transactions.PreparedTransaction(transactional_id=TRANSACTION, producer_id=7, producer_epoch=0),),
    ),
    "AbortTransaction": transactions.AbortTransactionRequest(
        topic=clients.MISSING, partition=0, producer_id=7, producer_epoch=0, coordinator_epoch=0
    ),
    "DescribeBrokers": brokers.DescribeBrokersRequest(broker_ids=[]),
    "DescribeClients": DescribeClientsRequest(),
    "ApiVersions": ApiVersionsRequest(),
    "FenceBroker": brokers.FenceBrokerRequest(broker_id=_NO_BROKER, timeout_ms=_TIMEOUT_MS),
    "UnfenceBroker": brokers.UnfenceBrokerRequest(broker_id=_NO_BROKER, timeout_ms=_TIMEOUT_MS),
    "DescribeQuorum": QuorumDescriptionRequest(),
    "DescribeGroupLags": DescribeGroupLagsRequest(group_ids=[clients.MEMBERS]),
    "DescribeFeatures": DescribeFeaturesRequest(),
}
"""A request of each API that only gRPC has."""


class GrpcClients:
    """A context manager: one connection of each client to a node."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._runner = asyncio.Runner()
        self._connections: dict[str, PeerConnections] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    def __enter__(self) -> GrpcClients:
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            await asyncio.gather(*(each.close() for each in self._connections.values()))

        self._runner.run(close())
        self._runner.close()

    def ask(self, call: AnyCall, request: Any, users: Iterable[str]) -> dict[str, Any]:
        """Return the response to each client, or the Refusal that ended its call."""

        async def ask_all() -> list[Any]:
            return await asyncio.gather(*(self._ask(user, call, request) for user in users))

        return dict(zip(users, self._runner.run(ask_all()), strict=True))

    async def _ask(self, user: str, call: AnyCall, request: Any) -> Any:
        gives_up_at = time.monotonic() + _DEADLINE_S
        while True:
            try:
                async with self._places:
                    return await self._answer(self._peer(user), call, request)
            except Refusal as refusal:
                return refusal
            except Unreachable:
                if time.monotonic() > gives_up_at:
                    raise
                # gRPC soon gives up a connection to which a busy machine has not come: every client tries again.
                await asyncio.sleep(_RETRY_S)

    def _peer(self, user: str) -> Peer:
        if user not in self._connections:
            login = PasswordLogin(mechanism=SaslMechanism.SCRAM_SHA_256, user=user, password=Password(PASSWORD))
            self._connections[user] = PeerConnections(dialling(ClientSecurity(sasl=login)))
        return self._connections[user].peer(self._address)

    async def _answer(self, peer: Peer, call: AnyCall, request: Any) -> Any:
        if isinstance(call, Call):
            return await peer.call(call, request, _DEADLINE_S)
        assert isinstance(call, Stream), call
        stream = peer.open(call)
        await stream.send(request)
        response = await asyncio.wait_for(stream.receive(), _DEADLINE_S)
        await stream.close()
        return response


def call_of(api: str, row: Row) -> tuple[AnyCall, Any] | None:
    """Return the gRPC call of a request, and the request as that takes it; None if it has none.

    A handler that gRPC calls gets what a client of the latest version would send.
    """
    declared = ROWS[api]
    if declared.visible_to is VisibleTo.NODES:
        return None
    if isinstance(declared.call, Call):
        return (declared.call, row.request) if row.version == declared.versions.last else None
    if isinstance(declared.call, Stream) and row.version < _IDS_FROM:
        return declared.call, {"Produce": _produce, "Fetch": _fetch}[api](row.request)
    return None


_IDS_FROM: Final = 13
"""Versions of Produce and Fetch that have no names: over gRPC they do."""


def _produce(request: Any) -> producing.ProduceRequest:
    partitions = [
        producing.ProducePartition(topic=topic.name, partition=data.index, records=data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    ]
    return producing.ProduceRequest(
        request_id=1,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        partitions=partitions,
        transactional_id=request.transactional_id or "",
    )


def _fetch(request: Any) -> fetching.FetchRequest:
    partitions = [
        fetching.FetchPartition(topic=topic.topic, partition=0, fetch_offset=0, partition_max_bytes=1_000)
        for topic in request.topics
    ]
    return fetching.FetchRequest(request_id=1, max_wait_ms=0, min_bytes=1, max_bytes=10_000, partitions=partitions)


def codes_by_topic(answer: Any) -> dict[str, int]:
    """Return the error code of each topic in an answer to Produce or Fetch, of either listener."""
    if not isinstance(answer, dict):
        return {each.topic: int(each.error_code) for each in answer.partitions}
    found = {}
    for topic in answer["responses"]:
        (partition,) = topic.get("partitions") or topic["partition_responses"]
        found[topic.get("topic") or topic["name"]] = partition["error_code"]
    return found


def codes_in(answer: Any) -> set[int]:
    """Return the error codes in the plain value of an answer, without that of success."""
    return {code for code in map(int, re.findall(r"'error_code': (\d+)", repr(answer))) if code}


def outcome(response: Any) -> tuple[object, ...]:
    """Return what responses of an API that only gRPC has are compared by: errors, topics, whether it has configs."""
    if isinstance(response, Refusal):
        return ("refused", int(response.error_code))
    codes = sorted(set(re.findall(r"error_code=(?:<ErrorCode\.\w+: )?(\d+)", repr(response))))
    topics = set(re.findall(r"topic='([^']+)'", repr(response)))
    return (codes, topics, any(each.configs for each in getattr(response, "topics", ())))


def only_grpc_calls() -> Iterator[tuple[str, AnyCall]]:
    for name in ONLY_GRPC:
        call = ROWS[name].call
        assert call is not None
        yield name, call
