"""The client's cache of metadata: brokers, the topics that it uses, and the leader of each partition.

It is refreshed when it is too old, also while the client is idle, and when a request shows that it is wrong, never more
often than the backoff allows.
A leader is replaced only by one of a newer epoch, so that a broker that lags cannot send the client to an old leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from msgspec import Struct

from kraft.client.cluster.any_broker import AnyBroker
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections
from kraft.client.model.arguments import checked_topic
from kraft.client.model.errors import AuthenticationFailed, ClientClosed
from kraft.client.model.settings import ClientSettings
from kraft.client.sans_io.backoff import Backoff, Chance
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.rpc.calls import METADATA
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

MISSING_TOPIC_GRACE_MS: Final = 5_000
"""Time for which a topic may be unknown before it counts as missing: brokers learn of a new one after a moment."""

REFRESH_BACKOFF_MAX_MS: Final = 300
"""Maximum pause between refreshes. Short, because producers wait for a new leader; a refresh costs a broker little."""


class Leader(Struct, frozen=True):
    """Leader of a partition."""

    address: str
    epoch: int


@dataclass(slots=True)
class _CachedTopic:
    topic_id: UUID
    metadata: MetadataResponseTopic
    leaders: dict[int, tuple[int, int]]
    """Leader id and leader epoch of each partition."""


class MetadataCache:
    """Metadata shared by all tasks of one client, which run on one event loop."""

    def __init__(self, connections: Connections, settings: ClientSettings, clock: Clock, chance: Chance) -> None:
        self._connections = connections
        self._settings = settings
        longest_ms = max(settings.retry_backoff_ms, min(settings.retry_backoff_max_ms, REFRESH_BACKOFF_MAX_MS))
        backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=longest_ms, chance=chance)
        self._backoff = backoff
        self._clock = clock
        self.any_broker = AnyBroker(
            settings.bootstrap_servers, backoff, clock, refused_timeout_ms=settings.bootstrap_refused_timeout_ms
        )
        self._brokers: dict[int, str] = {}
        self._topics: dict[str, _CachedTopic] = {}
        self._missing: dict[str, Refusal] = {}
        self._lacking_until_ms: dict[TopicPartition, int] = {}
        """Partitions that were waited for in vain, with the time until which they are not waited for again."""
        self._responses = 0
        """The number of refreshes of all topics that succeeded."""
        self._in_turn = asyncio.Lock()
        """Held during the refresh of a task that waits for a partition."""
        self._refreshed_at_ms: int | None = None
        self._refreshes_without_change = 0
        self._refreshing: asyncio.Task[None] | None = None
        self._age_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.trouble = ""
        """The reason why the last refresh failed; empty if it succeeded."""
        self.refused: AuthenticationFailed | None = None
        """Set after a refresh that failed because no broker accepts this client."""
        self.on_refresh: Callback = lambda: None
        """Called after every refresh in the background, also after one that failed."""

    # --- look-ups ---------------------------------------------------------------------------------------------

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions; None for a topic that was not looked up yet."""
        known = self._topics.get(topic)
        return None if known is None else len(known.metadata.partitions)

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Return the leader; None while there is none or it is not known."""
        known = self._topics.get(partition.topic)
        leader_id, epoch = known.leaders.get(partition.partition, (-1, -1)) if known else (-1, -1)
        address = self._brokers.get(leader_id)
        return None if address is None else Leader(address, epoch)

    def no_leader(self, partition: TopicPartition) -> Refusal:
        """Return the error for a partition without a leader, with the cure if its only replica is out of service."""
        known = self._topics.get(partition.topic)
        described = () if known is None else known.metadata.partitions
        replicas = next((each.replica_nodes for each in described if each.partition_index == partition.partition), ())
        cure = ""
        if len(replicas) == 1 and replicas[0] not in self._brokers:
            cure = f": its only replica is on broker {replicas[0]}, which is not in service: start or unfence it"
        return Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader{cure}")

    def refusal_of(self, topic: str) -> Refusal | None:
        """Return the error that brokers last gave for the topic; None if they described it."""
        return self._missing.get(topic)

    async def topic(self, name: str, timeout_ms: int) -> MetadataResponseTopic:
        """Return the topic, looked up if it is not cached. Raises a Refusal that names it, or Unreachable."""
        await self.require([name], timeout_ms)
        return self._topics[name].metadata

    async def require(self, names: Iterable[str], timeout_ms: int) -> None:
        """Look up those of the topics that are not cached. Raises Unreachable, or a Refusal that names one of them."""
        for refusal in (await self.look_up(names, timeout_ms)).values():
            raise refusal

    async def look_up(
        self, names: Iterable[str], timeout_ms: int, on_answer: Callback = lambda: None
    ) -> dict[str, Refusal]:
        """Look up those of the topics that are not cached, all in one request; wait a while for those that are missing.

        At most for half of the time: the rest is for what the caller asks about the others. Return the errors of those
        that are not cached then. `on_answer` is called when some may be cached. Raises Unreachable, or a Refusal of the
        whole request.
        """
        now_ms = self._clock.monotonic_ms()
        attempts = Attempts(self._backoff, self._clock, now_ms + min(timeout_ms // 2, MISSING_TOPIC_GRACE_MS))
        wanted = {checked_topic(name) for name in names}
        sought = wanted - self._topics.keys()
        while sought:
            await self._ask_about(sorted(sought), now_ms + timeout_ms - self._clock.monotonic_ms())
            on_answer()
            sought = {name for name in sought - self._topics.keys() if self._missing[name].error_code.retriable}
            if not sought or not attempts.may_follow(self._missing[min(sought)]):
                break
            await attempts.pause()
        return {name: self._missing[name] for name in sorted(wanted - self._topics.keys())}

    async def until_has(self, partition: TopicPartition, timeout_ms: int) -> int:
        """Return the number of the topic's partitions, which includes this one unless it is missing for a while.

        A partition that was missing a moment ago is not waited for again. Raises as `topic`.
        """
        count = len((await self.topic(partition.topic, timeout_ms)).partitions)
        now_ms = self._clock.monotonic_ms()
        if partition.partition < count or now_ms < self._lacking_until_ms.get(partition, 0):
            return count
        until_ms = now_ms + min(timeout_ms, MISSING_TOPIC_GRACE_MS)
        failures, seen = 0, self._responses
        while partition.partition >= count:
            failures += 1
            delay_ms = self._backoff.delay_ms(failures)
            if self._clock.monotonic_ms() + delay_ms >= until_ms:
                self._lacking_until_ms[partition] = self._clock.monotonic_ms() + MISSING_TOPIC_GRACE_MS
                return count
            seen = await self._refresh_after(seen, until_ms)
            count = self.partition_count(partition.topic) or 0
            if partition.partition >= count:
                self.any_broker.ask_another()
                await asyncio.sleep(delay_ms / 1000)
        self._lacking_until_ms.pop(partition, None)
        return count

    # --- refreshing -------------------------------------------------------------------------------------------

    def request_refresh(self) -> None:
        """Refresh soon in the background. Does nothing while a refresh is in progress. Raises ClientClosed."""
        if self._is_closed:
            raise ClientClosed("the client is closed")
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_soon(), name="metadata refresh")

    async def close(self) -> None:
        self._is_closed = True
        if self._age_timer is not None:
            self._age_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])

    async def refresh(self, timeout_ms: int) -> None:
        """Request metadata of all topics that the client uses. Raises Unreachable."""
        await self._ask_about(sorted(self._topics), timeout_ms)
        self._responses += 1
        self._restart_age()

    async def _ask_about(self, asked: Sequence[str], timeout_ms: int) -> None:
        """Request metadata of these topics alone (KIP-526): the others are as old as they were. Raises Unreachable."""
        try:
            response = await self.fetch(metadata_of(asked), timeout_ms)
        except Unreachable as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        self._learn(response, asked)
        if self._refreshed_at_ms is None:
            self._restart_age()

    async def _refresh_after(self, seen: int, deadline_ms: int) -> int:
        """Refresh, unless there was a response after the one with this number: tasks that wait share it.

        Return the number of the last response. Raises as `refresh` does.
        """
        async with self._in_turn:
            if self._responses == seen:
                # What is left of the time when those before have failed.
                await self.refresh(max(1, deadline_ms - self._clock.monotonic_ms()))
            return self._responses

    async def fetch(self, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        """Send one metadata request to any broker, and remember the brokers that the response names."""

        async def ask(address: str, timeout_s: float) -> MetadataResponse:
            return await self._connections.peer(address).call(METADATA, request, timeout_s)

        response = await self.any_broker.call(ask, timeout_ms)
        if response.brokers:
            self._brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
            self.any_broker.learn(self._brokers.values())
        return response

    async def _refresh_soon(self) -> None:
        if self._refreshed_at_ms is not None:
            self._refreshes_without_change += 1
            wait_ms = self._backoff.delay_ms(self._refreshes_without_change) - self._age_ms()
            if wait_ms > 0:
                await asyncio.sleep(wait_ms / 1000)
        # Tasks that wait request another refresh, so this only stores the reason of a failure.
        self.refused = None
        try:
            await self.refresh(self._settings.request_timeout_ms)
        except (Unreachable, Refusal) as error:
            self.trouble = str(error)
            self.refused = error if isinstance(error, AuthenticationFailed) else None
            self._restart_age()
        self.on_refresh()

    def _restart_age(self) -> None:
        """Count the age of the metadata from now on; at its maximum it is refreshed."""
        self._refreshed_at_ms = self._clock.monotonic_ms()
        if self._age_timer is not None:
            self._age_timer.cancel()
        if not self._is_closed:
            delay_s = self._settings.metadata_max_age_ms / 1000
            self._age_timer = asyncio.get_running_loop().call_later(delay_s, self.request_refresh)

    def _age_ms(self) -> int:
        assert self._refreshed_at_ms is not None
        return self._clock.monotonic_ms() - self._refreshed_at_ms

    # --- updates ----------------------------------------------------------------------------------------------

    def learn_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> None:
        """Take a leader from a broker's response if its leader epoch is newer than the known one."""
        known = self._topics.get(partition.topic)
        if known and leader_id >= 0 and leader_epoch > known.leaders.get(partition.partition, (-1, -1))[1]:
            known.leaders[partition.partition] = (leader_id, leader_epoch)

    def _learn(self, response: MetadataResponse, asked: Sequence[str]) -> None:
        described = {topic.name: topic for topic in response.topics}
        for name in asked:
            topic = described.get(name)
            if topic is None:
                self._forget(name, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist"))
            elif topic.error_code != ErrorCode.NONE:
                self._forget(name, _named(name, topic))
            else:
                self._missing.pop(name, None)
                self._learn_topic(name, topic)

    def _forget(self, name: str, refusal: Refusal) -> None:
        self._missing[name] = refusal
        if not refusal.error_code.retriable or refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # The partition count stays known, so that accepted records keep their partitions.
            known = self._topics.get(name)
            if known is not None:
                known.leaders = {partition: (-1, epoch) for partition, (_, epoch) in known.leaders.items()}

    def _learn_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        known = self._topics.get(name)
        old = known.leaders if known is not None and known.topic_id == topic.topic_id else {}
        leaders: dict[int, tuple[int, int]] = {}
        for each in topic.partitions:
            before = old.get(each.partition_index, (-1, -1))
            leaders[each.partition_index] = (
                (each.leader_id, each.leader_epoch) if each.leader_epoch >= before[1] else before
            )
        if leaders != old:
            self._refreshes_without_change = 0
        self._topics[name] = _CachedTopic(topic.topic_id, topic, leaders)


def _named(name: str, topic: MetadataResponseTopic) -> Refusal:
    """Return the broker's error for the topic as a Refusal whose text names the topic."""
    code, message = error_code(topic.error_code), topic.error_message
    if not message and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = f"topic {name!r} does not exist"
    if not message or name not in message:
        message = f"topic {name!r}: {message or code.name}"
    return Refusal(code, message)
