"""Interface by which the parts of an admin client send requests; `Admin` implements it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from kraft.client.cluster.any_broker import AnyBroker
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.cluster.ports import Connections, Node
from kraft.client.model.arguments import checked_names
from kraft.model.errors import KraftError, Refusal
from kraft.model.metadata import MetadataResponse
from kraft.rpc.call import Call

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Request = TypeVar("Request")
Response = TypeVar("Response")

IDS_AT_ONCE: Final = 32
"""Groups or transactional ids about which requests are sent at the same time."""


class AdminCalls(ABC):
    """Calls to any broker, to the active controller, or to one broker."""

    @abstractmethod
    async def describe_cluster(self, *, timeout_ms: int | None = None) -> MetadataResponse:
        """Return the brokers and the topics of the cluster."""

    @abstractmethod
    async def _change(self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int | None) -> Answer:
        """Send a request that the active controller decides."""

    @abstractmethod
    async def _ask_admin(
        self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int, attempt_ms: int | None = None
    ) -> Answer:
        """Try one broker after the other until one answers or the timeout passes."""

    @abstractmethod
    def _at(self, address: str) -> tuple[Connections, AnyBroker]:
        """Return the connections, and retries at this address alone."""

    @abstractmethod
    def _timeout(self, timeout_ms: int | None) -> int:
        """Return the caller's timeout, or the Admin's default."""

    @abstractmethod
    def _deadline_ms(self, timeout_ms: int | None) -> int:
        """Return when the timeout, or the Admin's default, ends on the client's clock."""

    @abstractmethod
    def _left_ms(self, deadline_ms: int) -> int:
        """Return the time until the deadline, at least 1 ms."""

    @abstractmethod
    async def _watched(self, call: Coroutine[Any, Any, Answer], timeout_ms: int | None) -> Answer:
        """Return the answer of the call; while it waits, and if it fails, tell when no controller is active."""

    # --- to many brokers ---------------------------------------------------------------------------------------

    async def _of_each_broker(
        self, call: Call[Request, Response], request: Request, timeout_ms: int | None
    ) -> dict[int, Response]:
        """Send the request to every broker; return the responses by broker id. Each broker has to answer in time."""
        return await self._watched(self._sent_to_each_broker(call, request, timeout_ms), timeout_ms)

    async def _sent_to_each_broker(
        self, call: Call[Request, Response], request: Request, timeout_ms: int | None
    ) -> dict[int, Response]:
        outcomes = await self._outcome_of_each_broker(call, request, timeout_ms)
        answers: dict[int, Response] = {}
        for broker_id, outcome in outcomes.items():
            if isinstance(outcome, KraftError):
                raise outcome
            answers[broker_id] = outcome
        return answers

    async def _outcome_of_each_broker(
        self, call: Call[Request, Response], request: Request, timeout_ms: int | None
    ) -> dict[int, Response | KraftError]:
        """Send the request to every broker in service; return the responses, or errors, by broker id."""
        deadline_ms = self._deadline_ms(timeout_ms)
        cluster = await self.describe_cluster(timeout_ms=timeout_ms)

        async def outcome_of(address: str) -> Response | KraftError:
            connections, only = self._at(address)

            async def ask(address: str, timeout_s: float) -> Response:
                return await connections.peer(address).call(call, request, timeout_s)

            try:
                return await only.call(ask, self._left_ms(deadline_ms))
            except KraftError as error:
                return error

        brokers = {each.broker_id: f"{each.host}:{each.port}" for each in cluster.brokers}
        return dict(zip(brokers, await asyncio.gather(*map(outcome_of, brokers.values())), strict=True))

    async def _of_each(
        self,
        coordinators: Coordinators,
        ids: Iterable[str],
        deadline_ms: int,
        ask: Callable[[str], Awaitable[Item]],
    ) -> dict[str, Item | Refusal]:
        """Return the result or the Refusal of each id that these coordinators have. Raises Unreachable."""

        async def results() -> dict[str, Item | Refusal]:
            asked = list(dict.fromkeys(checked_names(ids)))
            await coordinators.find_all(asked, self._left_ms(deadline_ms))
            free = asyncio.Semaphore(IDS_AT_ONCE)
            return dict(zip(asked, await asyncio.gather(*(result(each, free) for each in asked)), strict=True))

        async def result(one_id: str, free: asyncio.Semaphore) -> Item | Refusal:
            async with free:
                try:
                    return await ask(one_id)
                except Refusal as refusal:
                    return refusal

        return await self._watched(results(), self._left_ms(deadline_ms))
