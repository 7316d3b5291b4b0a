"""Measures what the client of one connection uses of its quotas, and mutes the connection once it is more.

Kafka's way (KIP-219): the response goes out at once and says how long, and meanwhile nothing is read. What is produced
is counted when it arrives, what is fetched when it is sent. A fetch of a client that is over its quota is answered
without records, and without reading any.

But Kafka tells the whole of a wait, and a client keeps to what it was told, even if its quota is removed meanwhile.
Here a client that fetches is told a second at a time, and one that produces is muted for longer than it was told.
"""

from __future__ import annotations

from collections.abc import Awaitable
from time import thread_time_ns
from typing import Any, Final

from msgspec.structs import replace

from kraft.model.callbacks import Callback
from kraft.quotas.client_quotas import TOLD_MS, ClientQuotas, told_to_producer
from kraft.quotas.precedence import Client
from kraft.server.kafka_listener.request_times import RequestTimes
from kraft.server.kafka_listener.requests import (
    Api,
    ConnectionContext,
    EncodedMessage,
    FetchQuota,
    Response,
    answer_unmeasured,
    answered_in_turns,
    encode_any,
    is_long,
)
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.server.kafka_listener.throttled_responses import encode_throttled, throttle_ms_of
from kraft.server.loop.throttling import Pause, Throttling
from kraft.server.loop.timed_steps import TimedSteps
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import Message
from kraft.wire.frame import RequestHeader

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class MeteredRequests:
    """The meter of one connection."""

    def __init__(self, throttling: Throttling, times: RequestTimes) -> None:
        """`times` get the waits of each API."""
        self._throttling = throttling
        self._times = times.by_key
        self._quotas: ClientQuotas = throttling.quotas
        self._pause: Pause | None = None
        self._until_ms = 0
        self._go_on: Callback = _nothing
        self.is_muted = False
        self._client: Client | None = None
        """Whom these were looked up for: a connection's client is nearly always the same."""

        self._in_effect = self._quotas.in_effect
        self._is_limited = False

    @property
    def has_quotas(self) -> bool:
        return self._quotas.has_any

    @property
    def measures_time(self) -> bool:
        return self._quotas.measures_time

    @property
    def muted_ms(self) -> int:
        return max(0, self._until_ms - self._throttling.now_ms()) if self.is_muted else 0

    def when_over(self, go_on: Callback) -> None:
        self._go_on = go_on

    def close(self) -> None:
        self._go_on = _nothing
        if self._pause is not None:
            self._pause.cancel()

    def begin(
        self, api: Api, request: Any, call: ConnectionContext, header: RequestHeader, began_ns: int
    ) -> Awaitable[ResponseBytes] | ResponseBytes:
        client = Client(call.principal.name, call.client_id)
        if client != self._client or self._in_effect is not self._quotas.in_effect:
            self._client, self._in_effect = client, self._quotas.in_effect
            self._is_limited = self._in_effect.hold_for(client)
        if not self._is_limited:
            return answer_unmeasured(api, request, call, header)
        now_ms, wait_ms = self._throttling.now_ms(), 0
        if header.api_key == _PRODUCE:
            wait_ms = self._quotas.produced(client, call.frame_bytes, now_ms)
            self._mute(wait_ms, header)
            wait_ms = told_to_producer(wait_ms, request.timeout_ms)
        elif header.api_key == _FETCH:
            wait_ms = min(self._quotas.fetch_wait_ms(client, now_ms), TOLD_MS)
            call = replace(call, fetch_quota=FetchQuota(self._quotas.fetch_bytes_max(client), wait_ms))
        begun = answered_in_turns(api, request, call) if is_long(call, header.api_key) else api(request, call)
        spent_ns = thread_time_ns() - began_ns if began_ns else 0
        if begun is None or isinstance(begun, (Message, EncodedMessage)):
            return self._answer(begun, header, client, wait_ms, spent_ns)
        return self._answer_when_there(begun, header, client, wait_ms, spent_ns)

    async def _answer_when_there(
        self, begun: Awaitable[Response], header: RequestHeader, client: Client, wait_ms: int, spent_ns: int
    ) -> ResponseBytes:
        if not self._quotas.measures_time:
            return self._answer(await begun, header, client, wait_ms, 0)
        timed = TimedSteps(begun, spent_ns)
        response = await timed
        return self._answer(response, header, client, wait_ms, timed.spent_ns)

    def _answer(
        self, response: Response, header: RequestHeader, client: Client, wait_ms: int, spent_ns: int
    ) -> ResponseBytes:
        quotas, now_ms = self._quotas, self._throttling.now_ms()
        began_ns = thread_time_ns() if quotas.measures_time else 0
        encoded = encode_any(response, header)
        if header.api_key == _FETCH and not wait_ms:
            wait_ms = min(quotas.fetched(client, sum(map(len, encoded)), now_ms), TOLD_MS)
        if began_ns:
            spent_ns += thread_time_ns() - began_ns
            wait_ms = max(wait_ms, quotas.worked(client, spent_ns, now_ms))
        wait_ms = max(wait_ms, throttle_ms_of(response, header.api_version))
        self._mute(wait_ms, header)
        return encode_throttled(response, header, wait_ms) if wait_ms and response is not None else encoded

    def _mute(self, wait_ms: int, header: RequestHeader) -> None:
        muted_ms = self.muted_ms
        if wait_ms <= muted_ms:
            return
        self._times[header.api_key & 0xFF].throttle_s += (wait_ms - muted_ms) / 1_000
        if self._pause is not None:
            self._pause.cancel()
        self.is_muted, self._until_ms = True, self._throttling.now_ms() + wait_ms
        self._pause = self._throttling.pause(wait_ms, self._over)

    def _over(self) -> None:
        self.is_muted, self._pause = False, None
        self._go_on()


def _nothing() -> None:
    """The connection is closed, or not open yet."""
