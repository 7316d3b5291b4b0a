"""Calls that any node can answer: tried at one address after the other until one does or time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock

Answer = TypeVar("Answer")

ATTEMPT_MAX_MS: Final = 3_000
"""A node that hangs delays a call by no more than this before the next one is asked."""


class NoBrokerReachable(Unreachable, KraftError):
    """Nobody who could have answered did within the time allowed; the text names each address with its reason."""

    def __init__(self, reasons: dict[str, str], timeout_ms: int) -> None:
        super().__init__(", ".join(reasons), "no broker answered")
        self.reasons = reasons
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        tried = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        return f"no broker answered within {self.timeout_ms / 1000:g} s ({tried})"


class AnyBroker:
    """The addresses of a cluster: those given at the start, and those that its metadata named."""

    def __init__(
        self, bootstrap: Sequence[str], backoff: Backoff, clock: Clock, *, refused_timeout_ms: int = 0
    ) -> None:
        """`refused_timeout_ms` bounds a call while no node has ever answered and every address refuses connections,
        as where no cluster runs; 0 does not."""
        self._bootstrap = list(bootstrap)
        self._learnt: list[str] = []
        self._preferred: str | None = None
        self._backoff = backoff
        self._clock = clock
        self._refused_timeout_ms = refused_timeout_ms
        """0 from the first answer on: a cluster that restarts is waited for."""

    def learn(self, addresses: Iterable[str]) -> None:
        """Replaces what was known of the cluster's brokers. The bootstrap addresses stay as a way back."""
        self._learnt = list(addresses)

    def addresses(self) -> list[str]:
        """In the order in which they are tried: the one that answered last, brokers, bootstrap addresses."""
        preferred = [] if self._preferred is None else [self._preferred]
        return list(dict.fromkeys([*preferred, *self._learnt, *self._bootstrap]))

    async def call(
        self,
        ask: Callable[[str, float], Awaitable[Answer]],
        timeout_ms: int,
        attempt_ms: int = ATTEMPT_MAX_MS,
    ) -> Answer:
        """The first answer. `ask` gets an address and its time in seconds.

        A retriable Refusal out of `ask` counts as no answer, so that an election is waited for; any other passes.
        Raises NoBrokerReachable when time is up, or the last Refusal if nodes did answer.
        """
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        reasons: dict[str, str] = {}
        rounds = 0
        while True:
            refusal: Refusal | None = None
            nobody_listens = True
            for address in self.addresses():
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0 and reasons:
                    break
                try:
                    answer = await ask(address, max(1, min(left_ms, attempt_ms)) / 1000)
                except Unreachable as error:
                    reasons[address] = error.reason
                    self._preferred = None
                    nobody_listens = nobody_listens and error.nobody_listens
                except Refusal as error:
                    if not is_worth_another_try(error.error_code):
                        raise
                    refusal = error
                    reasons[address] = str(error)
                else:
                    self._preferred = address
                    self._refused_timeout_ms = 0
                    return answer
            rounds += 1
            delay_ms = self._backoff.delay_ms(rounds)
            if nobody_listens and refusal is None and self._refused_timeout_ms:
                timeout_ms = min(timeout_ms, self._refused_timeout_ms)
            if self._clock.monotonic_ms() + delay_ms >= began_ms + timeout_ms:
                raise refusal or NoBrokerReachable(reasons, timeout_ms)
            await asyncio.sleep(delay_ms / 1000)


def is_worth_another_try(code: ErrorCode) -> bool:
    """True for refusals that say that the cluster is between two states."""
    return code.retriable and code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def check(code: ErrorCode, message: str) -> None:
    """Raises the refusal that a code and its message in an answer stand for."""
    if code is not ErrorCode.NONE:
        raise Refusal(code, message or "no further reason was given")
