"""A program that keeps sending requests to one controller, leader or not, and records its responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Self

from kraft.client.threads.loop_thread import shared_loop
from kraft.model.describe_quorum import QuorumDescriptionRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.calls import ALTER_CLIENT_QUOTAS, DESCRIBE_QUORUM
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tests.soak.loads.node_dialling import dial_as_node

_EVERY_S: Final = 0.025
_DEADLINE_S: Final = 30.0


class StaleLeaderClient:
    """A context manager, which asks from the loop of the clients: `connect`, then `begin`, then `end`.

    Changes go to the controller itself, not through a broker: quotas, each for a client of its own, so that each can
    be recognized. Every address is asked for the leader; the first is the controller's.
    """

    def __init__(self, node_id: int, *addresses: str, config_path: Path, name: str, attempt_s: float) -> None:
        self.asked = 0
        """Number of changes requested."""
        self.acknowledged: list[str] = []
        self.last_claim_s = 0.0
        """Time of the last response that names this node as leader; 0 if there was none since `begin`."""
        self._node_id = node_id
        self._addresses = addresses
        self._name = name
        self._attempt_s = attempt_s
        self._connections = PeerConnections(dial_as_node(config_path))
        self._asking: asyncio.Task[None] | None = None

    def names(self) -> list[str]:
        """Names of the clients whose quotas were changed."""
        return [self._client(number) for number in range(self.asked)]

    def connect(self) -> None:
        """Make one request, so that later ones do not wait for a connection."""
        self._run(self._connect)

    def begin(self) -> None:
        self.last_claim_s = 0.0
        self._run(self._begin)

    def end(self) -> None:
        """Stop, and return once every request has a response or has timed out."""
        self._run(self._end)

    # --- on the loop ------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        await asyncio.gather(*(self._ask_who_leads(address) for address in self._addresses))

    async def _begin(self) -> None:
        self._asking = asyncio.create_task(self._ask_on())

    async def _end(self) -> None:
        assert self._asking is not None, "ended before it began"
        self._asking.cancel()
        await asyncio.wait([self._asking])
        if not self._asking.cancelled():
            self._asking.result()

    async def _ask_on(self) -> None:
        questions: set[asyncio.Task[None]] = set()
        try:
            while True:
                questions.add(asyncio.create_task(self._ask_for_change()))
                questions |= {asyncio.create_task(self._ask_who_leads(address)) for address in self._addresses}
                await asyncio.sleep(_EVERY_S)
        finally:
            await asyncio.gather(*questions)

    async def _ask_for_change(self) -> None:
        client, self.asked = self._client(self.asked), self.asked + 1
        request = AlterClientQuotasRequest(
            entries=(
                EntryData(
                    entity=(EntityData(entity_type="client-id", entity_name=client),),
                    ops=(OpData(key="producer_byte_rate", value=1_000_000.0, remove=False),),
                ),
            ),
            validate_only=False,
        )
        controller = self._connections.peer(self._addresses[0])
        try:
            (result,) = (await controller.call(ALTER_CLIENT_QUOTAS, request, self._attempt_s)).entries
        except (Unreachable, Refusal):
            return
        if result.error_code == ErrorCode.NONE:
            self.acknowledged.append(client)

    async def _ask_who_leads(self, address: str) -> None:
        try:
            description = await self._connections.peer(address).call(
                DESCRIBE_QUORUM, QuorumDescriptionRequest(), self._attempt_s
            )
        except (Unreachable, Refusal):
            return
        if description.leader_id == self._node_id:
            self.last_claim_s = max(self.last_claim_s, time.monotonic())

    def _client(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        shared_loop().start(work).result(_DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._connections.close)
