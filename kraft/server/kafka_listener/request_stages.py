"""Times the stages of one connection's requests: queue, local, remote, send."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import Final

from kraft.server.kafka_listener.request_times import RequestTimes, TimedRequest
from kraft.server.kafka_listener.response_writer import ResponseBytes


class RequestStages:
    __slots__ = ("_arrived_s", "_by_key", "_slow_s_min", "_unsent")

    def __init__(self, times: RequestTimes, slow_s_min: float) -> None:
        self._by_key = times.by_key
        self._slow_s_min = slow_s_min
        self._arrived_s = 0.0
        self._unsent: list[TimedRequest] = []
        """Requests whose responses are ready, and not written completely."""

    def arrived(self) -> None:
        """Note that bytes have come. None come while there is a complete request: it arrived with the last ones."""
        self._arrived_s = perf_counter()

    def begun(
        self, key: int, size_bytes: int, began_s: float, begun: Awaitable[ResponseBytes] | ResponseBytes
    ) -> TimedRequest:
        """Note that a request was begun; it is answered, or waits from now on."""
        now_s, times = perf_counter(), self._by_key[key]
        queue_s, local_s = began_s - self._arrived_s, now_s - began_s
        times.count += 1
        times.queue_s += queue_s
        times.local_s += local_s
        request = TimedRequest(key, size_bytes, queue_s, local_s, now_s)
        if isinstance(begun, list):
            self._answered(request, begun)
        return request

    def waited(self, request: TimedRequest, response: ResponseBytes) -> None:
        """Note that a request that waited is answered."""
        now_s = perf_counter()
        request.remote_s, request.since_s = now_s - request.since_s, now_s
        self._by_key[request.key].remote_s += request.remote_s
        self._answered(request, response)

    def _answered(self, request: TimedRequest, response: ResponseBytes) -> None:
        worked_s = request.local_s + request.remote_s
        self._by_key[request.key].answered(request.queue_s + worked_s)
        if worked_s >= self._slow_s_min:
            request.is_slow, request.response_bytes = True, sum(map(len, response))

    def is_sent_next(self, request: TimedRequest) -> None:
        """Note that the response is among those that are written next."""
        self._unsent.append(request)

    def sent(self) -> list[TimedRequest]:
        """Note that these are written. Return those of them that are slow."""
        if not self._unsent:
            return _NONE
        now_s, slow = perf_counter(), _NONE
        for request in self._unsent:
            request.send_s = now_s - request.since_s
            self._by_key[request.key].send_s += request.send_s
            if request.is_slow:
                slow = [*slow, request]
        self._unsent.clear()
        return slow


_NONE: Final[list[TimedRequest]] = []
