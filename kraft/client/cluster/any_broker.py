"""Calls that any node can answer: addresses are tried in turn until one answers or the timeout passes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from kraft.client.model.errors import AuthenticationFailed
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.printable import counted
from kraft.rpc.peers import NotAdmitted, NotGrpc, NotServed, UnknownHost, Unreachable
from kraft.runtime.clock import Clock

log = logging.getLogger("kraft.client")

Answer = TypeVar("Answer")

ATTEMPT_MAX_MS: Final = 3_000
"""A node that hangs delays a call by at most this before the next one is tried."""

WARNED_AFTER_MS: Final = 1_200
"""Time without an answer from any address after which a warning names them: commands say within 2 s why they wait."""

_PENDING: Final = "no answer yet"

_OTHER_LISTENER: Final = (
    "this port does not speak Kraft's gRPC client protocol; use the address of a GRPC listener (default port 9094), "
    "with its security.protocol, and ssl.keystore.location if it requires certificates"
)
_NOT_SERVED: Final = (
    "this port does not serve the request; use the address of a GRPC listener (default port 9094), or a newer broker"
)


class NoBrokerReachable(Unreachable, KraftError):
    """No broker answered within the timeout. The text names each address that was tried, with its reason."""

    def __init__(self, reasons: dict[str, str], timeout_ms: int) -> None:
        super().__init__(", ".join(reasons), "no broker answered")
        self.reasons = reasons
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"no broker answered within {self.timeout_ms / 1000:g} s ({_tried(self.reasons)})"


class BrokerSilent(NoBrokerReachable):
    """The one broker that was asked did not answer within the timeout; others may."""

    def __init__(self, broker_id: int, error: NoBrokerReachable) -> None:
        super().__init__(error.reasons, error.timeout_ms)
        self.broker_id = broker_id

    def __str__(self) -> str:
        return f"broker {self.broker_id} did not answer within {self.timeout_ms / 1000:g} s ({_tried(self.reasons)})"


class PartMissing(Unreachable):
    """Some brokers do not answer, and what they alone know is missing. `found`: what the others know, a list."""

    def __init__(self, silent: Sequence[Unreachable], found: Sequence[Any], what: str) -> None:
        """`what` is missing, such as `groups`."""
        super().__init__(silent[0].address, silent[0].reason)
        self.silent = silent
        self.found = found
        others = len(silent) - 1
        who = "it coordinates" if not others else f"it and {counted(others, 'other broker')} coordinate"
        self._text = f"{silent[0]}: the {what} that {who} are missing"

    def __str__(self) -> str:
        return self._text


def as_far_as_known(ask: Callable[[], Sequence[Answer]]) -> tuple[list[Answer], PartMissing | None]:
    """Return the list that all brokers make together, and the error that says what is missing in it."""
    try:
        return list(ask()), None
    except PartMissing as error:
        return list(error.found), error


class _Round:
    """What the addresses said when each was tried once."""

    def __init__(self) -> None:
        self.refusal: Refusal | None = None
        self.misfit: AuthenticationFailed | None = None
        self.unreachable = 0
        self.is_hopeless = True

    def is_final(self, *, knows_cluster: bool) -> bool:
        """Return whether a misfit ends the call.

        The brokers of a cluster that is known may restart while a bootstrap server of another listener runs.
        """
        return self.refusal is None and not (knows_cluster and self.unreachable)


_Noted: TypeAlias = tuple[_Round, dict[str, str], dict[str, Refusal]]
"""Of a round; and of a whole call, by address: why it has not answered, and what a node refused that still listens."""


class _Attempts(Generic[Answer]):
    """Attempts at several addresses at the same time. Those that have not ended with the block are cancelled."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Future[Answer], str] = {}
        self._newest: asyncio.Future[Answer] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._running:
            each.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def begin(self, address: str, attempt: Awaitable[Answer]) -> None:
        self._newest = asyncio.ensure_future(attempt)
        self._running[self._newest] = address

    def is_waited_for(self, address: str) -> bool:
        return address in self._running.values()

    async def ended(self, until_s: float | None) -> tuple[str, asyncio.Future[Answer]] | None:
        """Return an attempt that has ended; None if the newest has been returned, or if the time of the loop is over.

        Without a time, None if all have been returned.
        """
        if not self._running or (until_s is not None and self._newest not in self._running):
            return None
        left_s = None if until_s is None else max(0.0, until_s - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(self._running, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None
        first = next(iter(done))
        return self._running.pop(first), first


Ask = Callable[[str, float], Awaitable[Answer]]
"""Asks the broker at an address, within so many seconds."""


class AnyBroker:
    """Addresses of a cluster: the bootstrap servers, and the brokers that its metadata names."""

    def __init__(
        self, bootstrap: Sequence[str], backoff: Backoff, clock: Clock, *, refused_timeout_ms: int = 0
    ) -> None:
        """`refused_timeout_ms` limits a call if no node has answered yet and every address refuses connections, as
        when no cluster runs, has an unknown host, or is that of another listener; 0 sets no limit.
        """
        self._bootstrap = list(bootstrap)
        self._brokers: list[str] = []
        self._preferred: str | None = None
        self._silent: set[str] = set()
        """Addresses that did not answer when they were last tried, or whose answer was behind."""
        self._backoff = backoff
        self._clock = clock
        self._has_answered = False
        """Whether any address ever has."""
        self._refused_timeout_ms = refused_timeout_ms
        """Set to 0 by the first answer or Refusal: from then on, calls wait for a cluster that restarts."""
        self._unanswered_since_ms: int | None = None
        """Since when no address has answered; None if the last one did."""
        self._answered_at_ms = 0
        self._has_warned = False

    def learn(self, addresses: Iterable[str]) -> None:
        """Replace the known brokers. The bootstrap servers are kept, in case no broker answers."""
        self._brokers = list(addresses)
        self._silent.intersection_update([*self._brokers, *self._bootstrap])

    def ask_another(self) -> None:
        """Try the address that answered last after all others: what it knows seems to be behind."""
        if self._preferred is not None:
            self._silent.add(self._preferred)
            self._preferred = None

    def addresses(self, hanging: str = "") -> list[str]:
        """Return the addresses in the order of attempts: the one that answered last, brokers, bootstrap servers.

        Those that did not answer come last: a call with a short timeout would otherwise spend it on them each time. So
        does one that is `hanging`.
        """
        preferred = [] if self._preferred is None else [self._preferred]
        addresses = dict.fromkeys([*preferred, *self._brokers, *self._bootstrap])
        return sorted(addresses, key=lambda address: address in self._silent or address == hanging)

    async def call(
        self, ask: Ask[Answer], timeout_ms: int, attempt_ms: int = ATTEMPT_MAX_MS, *, hanging: str = ""
    ) -> Answer:
        """Return the first answer. One that is `hanging` is asked last.

        The next address is asked as well when half of the time that is left is over: with a short timeout, one that
        hangs would otherwise leave the others none. Not so a change, whose attempts may be longer than ATTEMPT_MAX_MS:
        what another attempt is told may be that it was made already.

        A retriable Refusal from `ask` counts as no answer, so that the call waits for an election; any other is raised,
        but AuthenticationFailed only after the other addresses: one of the bootstrap servers may be of another
        listener. That of a wrong password is raised at once, since brokers have the same users.
        When the timeout passes, raises the last Refusal of a node that still listens, otherwise NoBrokerReachable.
        """
        began_ms = self._clock.monotonic_ms()
        reasons: dict[str, str] = {}
        # An attempt may hang for longer.
        told = asyncio.get_running_loop().call_later(WARNED_AFTER_MS / 1_000, self._note_silence, began_ms, reasons)
        try:
            return await self._first_answer(ask, began_ms, timeout_ms, attempt_ms, hanging, reasons)
        finally:
            told.cancel()

    async def _first_answer(
        self, ask: Ask[Answer], began_ms: int, timeout_ms: int, attempt_ms: int, hanging: str, reasons: dict[str, str]
    ) -> Answer:
        """Do what `call` says; `reasons` gets for each address why it has not answered."""
        rounds = 0
        refusals: dict[str, Refusal] = {}
        while True:
            found = _Round()
            answer = await self._tried_once(ask, began_ms + timeout_ms, attempt_ms, hanging, (found, reasons, refusals))
            if answer is not None:
                return answer[0]
            if (misfit := found.misfit) is not None and found.is_final(knows_cluster=self._has_answered):
                raise misfit
            rounds += 1
            if found.refusal is None:
                self._note_silence(began_ms, reasons)
            delay_ms = self._backoff.delay_ms(rounds)
            if found.is_hopeless and found.refusal is None and self._refused_timeout_ms:
                timeout_ms = min(timeout_ms, self._refused_timeout_ms)
            if self._clock.monotonic_ms() + delay_ms >= began_ms + timeout_ms:
                last = found.refusal or next(iter(refusals.values()), None)
                raise last or NoBrokerReachable(reasons, timeout_ms)
            await asyncio.sleep(delay_ms / 1000)

    async def _tried_once(
        self, ask: Ask[Answer], deadline_ms: int, attempt_ms: int, hanging: str, noted: _Noted
    ) -> tuple[Answer] | None:
        """Return the first answer, in a tuple; None if no address has answered, or the time is over."""
        addresses = self.addresses(hanging)
        _, reasons, _ = noted
        async with _Attempts[Answer]() as attempts:
            for address in addresses:
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0 and reasons:
                    break
                reasons.setdefault(address, _PENDING)
                attempts.begin(address, ask(address, max(1, min(left_ms, attempt_ms)) / 1000))
                shares = attempt_ms <= ATTEMPT_MAX_MS and address != addresses[-1]
                until_s = asyncio.get_running_loop().time() + left_ms / 2_000 if shares else None
                while (ended := await attempts.ended(until_s)) is not None:
                    asked, attempt = ended
                    try:
                        answer = attempt.result()
                    except (Refusal, Unreachable) as error:
                        self._note_failure(asked, error, noted)
                    else:
                        self._preferred = asked
                        self._note_answer(asked)
                        return (answer,)
                if attempts.is_waited_for(address):
                    self._preferred = None
                    self._silent.add(address)
        return None

    def _note_failure(self, address: str, error: Refusal | Unreachable, noted: _Noted) -> None:
        """Note why the address did not answer. Raises the error if it ends the call."""
        found, reasons, refusals = noted
        if isinstance(error, Unreachable):
            found.unreachable += 1
            found.is_hopeless &= self._note_unreachable(address, error, reasons)
            if error.nobody_listens:
                refusals.pop(address, None)
            return
        reasons[address] = str(error)
        if isinstance(error, AuthenticationFailed) and error.error_code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            found.misfit = found.misfit or error
            self._preferred = None if self._preferred == address else self._preferred
            self._silent.add(address)
            return
        self._note_answer(address)
        if not is_transient(error.error_code):
            raise error
        found.refusal = refusals[address] = error

    def _note_unreachable(self, address: str, error: Unreachable, reasons: dict[str, str]) -> bool:
        """Note the reason; return whether it is in vain to try this address again."""
        other_listener = _other_listener(error)
        # A name may have several addresses, and gRPC gives the reason of one: that nothing listens at one of them says
        # less than what listens at another.
        if not (error.nobody_listens and reasons.get(address) == _OTHER_LISTENER):
            reasons[address] = other_listener or error.reason
        self._preferred = None
        self._silent.add(address)
        return error.nobody_listens or isinstance(error, UnknownHost) or other_listener is not None

    def _note_answer(self, address: str) -> None:
        self._silent.discard(address)
        self._has_answered = True
        self._refused_timeout_ms = 0
        self._unanswered_since_ms, self._has_warned = None, False
        self._answered_at_ms = self._clock.monotonic_ms()

    def _note_silence(self, began_ms: int, reasons: dict[str, str]) -> None:
        """Warn once of a silence that lasts: programs wait in it for a minute and more, or for ever."""
        if self._unanswered_since_ms is None:
            # Another call may have been answered while this one waited.
            self._unanswered_since_ms = max(began_ms, self._answered_at_ms)
        silent_ms = self._clock.monotonic_ms() - self._unanswered_since_ms
        if silent_ms >= WARNED_AFTER_MS and not self._has_warned:
            self._has_warned = True
            # A call to one broker says nothing of the others.
            who = "no broker has" if len(reasons) > 1 else "one broker has not"
            log.warning("%s answered for %.0f s (%s)", who, silent_ms / 1_000, _tried(reasons))


def _tried(reasons: dict[str, str]) -> str:
    return "; ".join(f"{address}: {reason}" for address, reason in reasons.items())


def _other_listener(error: Unreachable) -> str | None:
    """Return the reason with the remedy if the address is not that of a listener for clients, else None."""
    match error:
        case NotGrpc() | NotAdmitted():
            # Calls of clients need no admission.
            return _OTHER_LISTENER
        case NotServed():
            return _NOT_SERVED
        case _:
            return None


def is_transient(code: ErrorCode) -> bool:
    """True if the refusal means that the cluster is changing state, such as during an election."""
    return code.retriable and code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def timed_out(error: Refusal | Unreachable, timeout_ms: int) -> Refusal | NoBrokerReachable:
    """Return the error of a call whose last attempt had this one."""
    return NoBrokerReachable({error.address: error.reason}, timeout_ms) if isinstance(error, Unreachable) else error


def check(code: int, message: str | None) -> None:
    """Raise a Refusal unless the response's error code is NONE."""
    if code != ErrorCode.NONE:
        raise Refusal(error_code(code), message or "no further reason was given")
