"""Times the stages of one connection's requests: queue, local, remote, send."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import Final

from kraft.server.kafka_listener.request_times import STEPS_PER_S, RequestTimes, TimedRequest
from kraft.server.kafka_listener.response_writer import ResponseBytes


class RequestStages:
    __slots__ = ("_by_key", "_slow_s_min", "_unsent", "arrived_s", "is_sent_next")

    def __init__(self, times: RequestTimes, slow_s_min: float) -> None:
        self._by_key = times.by_key
        self._slow_s_min = slow_s_min
        self.arrived_s = 0.0
        """When bytes came last. None come while there is a complete request: it arrived with these."""
        self._unsent: list[TimedRequest] = []
        """Requests whose responses are ready, and not written completely."""
        self.is_sent_next = self._unsent.append
        """Notes that the response of a request is among those that are written next."""

    def begun(
        self, key: int, size_bytes: int, began_s: float, begun: Awaitable[ResponseBytes] | ResponseBytes
    ) -> TimedRequest:
        """Note that a request was begun; it is answered, or waits from now on."""
        now_s, times = perf_counter(), self._by_key[key]
        queue_s, local_s = began_s - self.arrived_s, now_s - began_s
        times.count += 1
        times.queue_s += queue_s
        times.local_s += local_s
        request = TimedRequest(times, size_bytes, queue_s, local_s, now_s)
        if isinstance(begun, list):
            # As `_answered` does: most requests come here.
            times.durations[int((queue_s + local_s) * STEPS_PER_S).bit_length()] += 1
            if local_s >= self._slow_s_min:
                request.is_slow, request.response_bytes = True, sum(map(len, begun))
        return request

    def waited(self, request: TimedRequest, response: ResponseBytes) -> None:
        """Note that a request that waited is answered."""
        now_s = perf_counter()
        request.remote_s, request.since_s = now_s - request.since_s, now_s
        request.times.remote_s += request.remote_s
        self._answered(request, response)

    def _answered(self, request: TimedRequest, response: ResponseBytes) -> None:
        worked_s = request.local_s + request.remote_s
        request.times.answered(request.queue_s + worked_s)
        if worked_s >= self._slow_s_min:
            request.is_slow, request.response_bytes = True, sum(map(len, response))

    def sent(self) -> list[TimedRequest]:
        """Note that these are written. Return those of them that are slow."""
        if not self._unsent:
            return _NONE
        now_s, slow = perf_counter(), _NONE
        for request in self._unsent:
            send_s = now_s - request.since_s
            request.times.send_s += send_s
            if request.is_slow:
                request.send_s = send_s
                slow = [*slow, request]
        self._unsent.clear()
        return slow


_NONE: Final[list[TimedRequest]] = []
