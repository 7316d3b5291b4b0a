"""What a consumer sends requests with: its group, and an engine that it opens with the first one.

The functions of `consumer_commits`, `range_reads` and `topic_lookup` are methods of `Consumer`, which get it as their
first argument.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from kraft.client.aio.dropped import close_when_dropped
from kraft.client.aio.engine import Engine
from kraft.client.aio.group import OwnGroup, close_dropped, needs_group
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import checked_number
from kraft.client.model.errors import ClientClosed
from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.fetch_buffer import FetchBuffer


class ConsumerClient(Protocol):
    """A consumer, as the functions know it that are its methods."""

    @property
    def calls(self) -> ConsumerCalls: ...


class ConsumerCalls:
    """The engine and the group of a consumer, and the timeouts of its calls."""

    def __init__(
        self, settings: ConsumerSettings, network: Network, buffer: FetchBuffer, group: OwnGroup | None
    ) -> None:
        self.settings = settings
        self._network = network
        self._buffer = buffer
        self._group = group
        self.opened: Engine | None = None
        """None until the first request, and after a close."""
        self._is_closed = False

    def engine(self) -> Engine:
        """Return the connections and tasks, opened at first use. Raises ClientClosed."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self.opened is None:
            start_offsets = None if self._group is None else self._group.start_offsets
            self.opened = engine = Engine(self._buffer, self.settings, self._network, start_offsets)
            close = partial(close_dropped, engine, self._group, self._network.clock)
            engine.when_dropped = close_when_dropped(self, close, name="consumer")
        return self.opened

    async def close(self) -> None:
        self._is_closed = True
        engine, self.opened = self.opened, None
        if engine is not None:
            await engine.close()

    def group(self, call: str) -> OwnGroup:
        """Return the group that the call is about. Raises SubscriptionConflict without one, and ClientClosed."""
        if self._group is None:
            raise needs_group(call)
        if self._is_closed:
            raise ClientClosed(f"{call}: the consumer is closed")
        return self._group

    def timeout(self, timeout_ms: int | None) -> int:
        """Return the caller's timeout, or default.api.timeout.ms."""
        return self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def deadline_ms(self, timeout_ms: int | None) -> int:
        """Return when the timeout ends on the client's clock. Raises ValueError for what is no number."""
        return self._network.clock.monotonic_ms() + checked_number("timeout_ms", self.timeout(timeout_ms))
