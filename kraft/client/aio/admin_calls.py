"""Requests of an admin client: to any broker, to the active controller, to each broker, or to coordinators and leaders.

`Admin` holds an `AdminCalls`. Its methods are the functions of the `*_admin` modules beside this one, which get the
admin client as their first argument.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from kraft.client.aio.dropped import close_when_dropped
from kraft.client.aio.record_deletion import RecordDeletion
from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS, AnyBroker, BrokerSilent, NoBrokerReachable, check
from kraft.client.cluster.connections import Connections, PeerNode
from kraft.client.cluster.controller_watch import watched
from kraft.client.cluster.coordinators import Check, Coordinators, check_nothing
from kraft.client.cluster.leader_calls import LeaderCalls
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.network import Network
from kraft.client.cluster.offset_lookup import OffsetLookup
from kraft.client.model.arguments import checked_names
from kraft.client.model.errors import ClientClosed, NoActiveController
from kraft.client.model.settings import AdminSettings
from kraft.client.sans_io.backoff import Backoff
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.rpc.call import Call
from kraft.rpc.calls import DESCRIBE_QUORUM
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.metadata import MetadataResponse

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Request = TypeVar("Request")
Response = TypeVar("Response")

IDS_AT_ONCE: Final = 32
"""Groups or transactional ids about which requests are sent at the same time."""


class AdminClient(Protocol):
    """An admin client, as the functions know it that are its methods."""

    @property
    def calls(self) -> AdminCalls: ...


class AdminCalls:
    """What an admin client sends requests with. Opens its connections with the first one."""

    def __init__(self, settings: AdminSettings, network: Network) -> None:
        self._settings = settings
        self._network = network
        self._connections: Connections | None = None
        self._metadata: MetadataCache | None = None
        self._when_dropped: weakref.finalize[..., Any] | None = None
        self._coordinators: dict[CoordinatorType, Coordinators] = {}
        self._is_closed = False
        self.transaction_partitions = 0
        """Partitions of `__transaction_state`; 0 until they have been counted."""
        self.internal_topics_seen: set[CoordinatorType] = set()
        """Coordinators of these types were looked for, or may be: the topic they need is there."""

    async def close(self) -> None:
        self._is_closed = True
        if self._metadata is not None and self._connections is not None:
            connections, self._connections = self._connections, None
            if self._when_dropped is not None:
                self._when_dropped.detach()
            await _close(self._metadata, connections)

    # --- time -------------------------------------------------------------------------------------------------

    def timeout(self, timeout_ms: int | None) -> int:
        """Return the caller's timeout, or default.api.timeout.ms."""
        return self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def deadline_ms(self, timeout_ms: int | None) -> int:
        """Return when the timeout ends on the client's clock."""
        return self._network.clock.monotonic_ms() + self.timeout(timeout_ms)

    def left_ms(self, deadline_ms: int) -> int:
        """Return the time until the deadline, at least 1 ms."""
        return max(1, deadline_ms - self._network.clock.monotonic_ms())

    # --- to any broker, or to the active controller -----------------------------------------------------------

    async def ask(
        self,
        call: Call[Request, Response],
        request: Request,
        timeout_ms: int | None,
        check_response: Check[Response] = check_nothing,
    ) -> Response:
        """Send the request to one broker after the other, until one answers or the timeout passes.

        A retriable Refusal that `check_response` raises counts as no answer; any other is raised.
        """
        return await self._first(call, lambda _: request, self.timeout(timeout_ms), ATTEMPT_MAX_MS, check_response)

    async def change(
        self,
        call: Call[Request, Response],
        request_of: Callable[[int], Request],
        timeout_ms: int | None,
        check_response: Check[Response] = check_nothing,
    ) -> Response:
        """Send a request that the active controller decides, as `ask` does; `request_of` gets the attempt's timeout.

        The quorum commits the change before the response, so one attempt gets more time.
        """
        attempt_ms = self._settings.request_timeout_ms
        answer = self._first(call, request_of, self.timeout(timeout_ms), attempt_ms, check_response)
        return await self.watched(answer, timeout_ms)

    async def _first(
        self,
        call: Call[Request, Response],
        request_of: Callable[[int], Request],
        timeout_ms: int,
        attempt_ms: int,
        check_response: Check[Response],
    ) -> Response:
        metadata, connections = self._started()

        async def ask_at(address: str, timeout_s: float) -> Response:
            response = await connections.peer(address).call(call, request_of(int(timeout_s * 1_000)), timeout_s)
            check_response(response)
            return response

        return await metadata.any_broker.call(ask_at, timeout_ms, attempt_ms)

    async def watched(self, call: Coroutine[Any, Any, Answer], timeout_ms: int | None) -> Answer:
        """Return the answer of the call; while it waits, and if it fails, tell when no controller is active."""
        return await watched(call, partial(self.describe_quorum, wait_for_leader=False), self.timeout(timeout_ms))

    async def describe_quorum(
        self, *, timeout_ms: int | None = None, wait_for_leader: bool = True
    ) -> QuorumDescription:
        """Return the state of the metadata quorum. Raises NoActiveController."""

        def check_leader(description: QuorumDescription) -> None:
            if description.error_code is ErrorCode.NOT_CONTROLLER and (wait_for_leader or not description.voters):
                raise NoActiveController(description)

        description = await self.ask(DESCRIBE_QUORUM, QuorumDescriptionRequest(), timeout_ms, check_leader)
        if description.error_code is ErrorCode.NOT_CONTROLLER:
            raise NoActiveController(description)
        check(description.error_code, description.error_message)
        return description

    async def describe_cluster(
        self, topics: list[str] | None = None, *, timeout_ms: int | None = None
    ) -> MetadataResponse:
        """Return the brokers, and these topics or all."""
        metadata, _ = self._started()
        return await metadata.fetch(metadata_of(topics), self.timeout(timeout_ms))

    # --- to one broker, or to each ----------------------------------------------------------------------------

    def node(self, address: str) -> PeerNode:
        """Return the node at this address, for a single attempt."""
        _, connections = self._started()
        return connections.peer(address)

    async def of_each_broker(
        self, call: Call[Request, Response], request: Request, timeout_ms: int | None
    ) -> tuple[dict[int, Response], list[Unreachable]]:
        """Send the request to every broker; return the responses by broker id, and the errors of who did not answer.

        Raises the Refusal of a broker, or Unreachable if none answers.
        """
        outcomes = await self.watched(self.outcome_of_each_broker(call, request, timeout_ms), timeout_ms)
        answers: dict[int, Response] = {}
        silent: list[Unreachable] = []
        for broker_id, outcome in outcomes.items():
            if isinstance(outcome, Unreachable):
                silent.append(outcome)
            elif isinstance(outcome, KraftError):
                raise outcome
            else:
                answers[broker_id] = outcome
        if silent and not answers:
            raise silent[0]
        return answers, silent

    async def outcome_of_each_broker(
        self,
        call: Call[Request, Response],
        request: Request,
        timeout_ms: int | None,
        broker_ids: Collection[int] | None = None,
        is_enough: Callable[[Response], bool] = lambda _: False,
    ) -> dict[int, Response | KraftError]:
        """Send the request to all brokers in service, or to those among these; return the responses, or errors.

        After a response that `is_enough` nobody is waited for: brokers that have not answered by then are left out.
        """
        deadline_ms = self.deadline_ms(timeout_ms)
        cluster = await self.describe_cluster([], timeout_ms=timeout_ms)

        async def outcome_of(broker_id: int, address: str) -> Response | KraftError:
            only = AnyBroker([address], self._backoff(), self._network.clock)

            async def ask(address: str, timeout_s: float) -> Response:
                return await self.node(address).call(call, request, timeout_s)

            try:
                return await only.call(ask, self.left_ms(deadline_ms))
            except NoBrokerReachable as error:
                return BrokerSilent(broker_id, error)
            except KraftError as error:
                return error

        brokers = {
            each.node_id: f"{each.host}:{each.port}"
            for each in cluster.brokers
            if broker_ids is None or each.node_id in broker_ids
        }
        asked = {each: asyncio.ensure_future(outcome_of(each, address)) for each, address in brokers.items()}
        try:
            for finished in asyncio.as_completed(asked.values()):
                response = await finished
                if not isinstance(response, KraftError) and is_enough(response):
                    break
        finally:
            for each in asked.values():
                each.cancel()
        return {broker_id: each.result() for broker_id, each in asked.items() if each.done() and not each.cancelled()}

    # --- to coordinators and leaders --------------------------------------------------------------------------

    async def of_each(
        self, coordinators: Coordinators, ids: Iterable[str], deadline_ms: int, ask: Callable[[str], Awaitable[Item]]
    ) -> dict[str, Item | Refusal]:
        """Return the result or the Refusal of each id that these coordinators have. Raises Unreachable."""

        async def results() -> dict[str, Item | Refusal]:
            asked = list(dict.fromkeys(checked_names(ids)))
            await coordinators.find_all(asked, self.left_ms(deadline_ms))
            free = asyncio.Semaphore(IDS_AT_ONCE)
            return dict(zip(asked, await asyncio.gather(*(result(each, free) for each in asked)), strict=True))

        async def result(one_id: str, free: asyncio.Semaphore) -> Item | Refusal:
            async with free:
                try:
                    return await ask(one_id)
                except Refusal as refusal:
                    return refusal

        return await self.watched(results(), self.left_ms(deadline_ms))

    def coordinators(self, key_type: CoordinatorType) -> Coordinators:
        metadata, connections = self._started()
        if key_type not in self._coordinators:
            self._coordinators[key_type] = Coordinators(
                connections, metadata.any_broker, self._backoff(), self._network.clock, key_type
            )
        return self._coordinators[key_type]

    def leader_calls(self) -> LeaderCalls:
        metadata, connections = self._started()
        return LeaderCalls(connections, metadata, self._backoff(), self._network.clock)

    def record_deletion(self) -> RecordDeletion:
        metadata, connections = self._started()
        return RecordDeletion(
            connections, metadata, self._backoff(), self._network.clock, self._settings.request_timeout_ms
        )

    def offset_lookup(self) -> OffsetLookup:
        metadata, connections = self._started()
        return OffsetLookup(connections, metadata, self._backoff(), self._network.clock, reads_committed=False)

    # --- inside -----------------------------------------------------------------------------------------------

    def _backoff(self) -> Backoff:
        return Backoff(
            first_ms=self._settings.retry_backoff_ms,
            max_ms=self._settings.retry_backoff_max_ms,
            chance=self._network.chance,
        )

    def _started(self) -> tuple[MetadataCache, Connections]:
        if self._is_closed:
            raise ClientClosed("the admin client is closed")
        if self._metadata is None or self._connections is None:
            self._connections = self._network.connect(self._settings)
            self._metadata = MetadataCache(self._connections, self._settings, self._network.clock, self._network.chance)
            close = partial(_close, self._metadata, self._connections)
            self._when_dropped = close_when_dropped(self, close, name="admin")
        return self._metadata, self._connections


async def _close(metadata: MetadataCache, connections: Connections) -> None:
    await metadata.close()
    await connections.close()
