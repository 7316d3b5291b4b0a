from __future__ import annotations

import asyncio
from itertools import chain, repeat

import pytest

from kraft.client.cluster.any_broker import AnyBroker, NoBrokerReachable
from kraft.client.model.errors import AuthenticationFailed
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.rpc.peers import NotAdmitted, NotGrpc, NotServed, UnknownHost, Unreachable
from tests.support.virtual_time import LoopClock

REFUSED_TIMEOUT_MS, TIMEOUT_MS = 1_000, 10_000


async def failure(*errors: Unreachable) -> NoBrokerReachable:
    """The error of a new client's call at addresses that answer with these errors."""
    backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
    at = {error.address: error for error in errors}
    nodes = AnyBroker(list(at), backoff, LoopClock(), refused_timeout_ms=REFUSED_TIMEOUT_MS)

    async def ask(address: str, _: float) -> None:
        raise at[address]

    with pytest.raises(NoBrokerReachable) as caught:
        await nodes.call(ask, TIMEOUT_MS)
    return caught.value


async def test_an_address_that_did_not_answer_is_tried_last_until_it_does() -> None:
    backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
    nodes = AnyBroker(["broker-1:9094", "broker-2:9094"], backoff, LoopClock())
    hanging = {"broker-1:9094", "broker-2:9094"}

    async def ask(address: str, _: float) -> str:
        if address in hanging:
            raise Unreachable(address, "no answer within the time allowed")
        return address

    with pytest.raises(NoBrokerReachable):
        await nodes.call(ask, 0)
    assert nodes.addresses() == ["broker-2:9094", "broker-1:9094"]
    hanging.clear()
    assert await nodes.call(ask, 0) == "broker-2:9094"
    hanging.add("broker-2:9094")
    assert await nodes.call(ask, TIMEOUT_MS) == "broker-1:9094"
    assert nodes.addresses() == ["broker-1:9094", "broker-2:9094"]


async def asked_of_a_hanging_one(attempt_ms: int) -> tuple[str, float, list[str]]:
    """Ask two addresses for 2.5 s, the first of which hangs and the second answers after one second.

    Return which answered and after how long, and the order of the next call.
    """
    backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
    nodes = AnyBroker(["broker-1:9094", "broker-2:9094"], backoff, LoopClock())

    async def ask(address: str, timeout_s: float) -> str:
        needed_s = 60.0 if address == "broker-1:9094" else 1.0
        await asyncio.sleep(min(timeout_s, needed_s))
        if timeout_s < needed_s:
            raise Unreachable(address, "no answer within the time allowed")
        return address

    began_s = asyncio.get_running_loop().time()
    answered = await nodes.call(ask, 2_500, attempt_ms)
    return answered, asyncio.get_running_loop().time() - began_s, nodes.addresses()


async def test_one_that_hangs_leaves_the_others_half_of_a_short_time() -> None:
    answered, took_s, order = await asked_of_a_hanging_one(3_000)
    assert (answered, order) == ("broker-2:9094", ["broker-2:9094", "broker-1:9094"])
    assert took_s == pytest.approx(2.25)


async def test_a_change_is_sent_to_one_address_at_a_time() -> None:
    with pytest.raises(NoBrokerReachable):
        await asked_of_a_hanging_one(30_000)


@pytest.mark.parametrize("kind", [NotGrpc, NotAdmitted])
async def test_an_address_of_another_listener_is_soon_reported_with_the_remedy(kind: type[Unreachable]) -> None:
    began_s = asyncio.get_running_loop().time()
    error = await failure(kind("broker-1:9092", "the connection was closed"))
    assert str(error) == (
        "no broker answered within 1 s (broker-1:9092: this port does not speak Kraft's gRPC client protocol; "
        "use the address of a GRPC listener (default port 9094), with its security.protocol, and "
        "ssl.keystore.location if it requires certificates)"
    )
    assert asyncio.get_running_loop().time() - began_s <= REFUSED_TIMEOUT_MS / 1_000


async def test_an_address_that_does_not_serve_the_request_may_be_of_another_listener_or_version() -> None:
    error = await failure(NotServed("broker-1:9093", "UNIMPLEMENTED: Method not found!"))
    assert error.timeout_ms == REFUSED_TIMEOUT_MS
    assert "use the address of a GRPC listener (default port 9094), or a newer broker" in str(error)


async def test_addresses_that_refuse_and_those_of_other_listeners_are_given_up_together() -> None:
    error = await failure(
        Unreachable("broker-1:9094", "connection refused", nobody_listens=True), NotGrpc("broker-2:9092", "closed")
    )
    assert error.timeout_ms == REFUSED_TIMEOUT_MS
    assert error.reasons["broker-1:9094"] == "connection refused"


async def test_a_host_that_is_unknown_is_given_up_like_an_address_that_refuses() -> None:
    refused = Unreachable("broker-1:9094", "connection refused", nobody_listens=True)
    error = await failure(refused, UnknownHost("broker-2:9094", "unknown host"))
    assert error.timeout_ms == REFUSED_TIMEOUT_MS


async def test_a_name_with_an_address_where_nothing_listens_is_still_that_of_another_listener() -> None:
    """`localhost` is ::1 and 127.0.0.1, and gRPC gives the reason of either."""
    backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
    nodes = AnyBroker(["localhost:9092"], backoff, LoopClock(), refused_timeout_ms=REFUSED_TIMEOUT_MS)
    closed = NotGrpc("localhost:9092", "closed")
    refused = Unreachable("localhost:9092", "connection refused", nobody_listens=True)
    errors = chain([refused, closed], repeat(refused))

    async def ask(address: str, _: float) -> None:
        raise next(errors)

    with pytest.raises(NoBrokerReachable, match="localhost:9092: this port does not speak Kraft's gRPC"):
        await nodes.call(ask, TIMEOUT_MS)


async def test_an_address_that_may_answer_later_is_waited_for() -> None:
    error = await failure(NotGrpc("broker-1:9092", "closed"), Unreachable("broker-2:9094", "no answer"))
    assert error.timeout_ms == TIMEOUT_MS


async def test_a_silence_that_lasts_is_logged_once_and_again_after_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
    nodes = AnyBroker(["broker-1:9094"], backoff, LoopClock())
    answers = False

    async def ask(address: str, _: float) -> str:
        if answers:
            return address
        raise Unreachable(address, "connection refused")

    # Calls with short timeouts, one after the other, as a member of a group makes them.
    for _ in range(2):
        with pytest.raises(NoBrokerReachable):
            await nodes.call(ask, 500)
    assert caplog.messages == []
    for _ in range(3):
        with pytest.raises(NoBrokerReachable):
            await nodes.call(ask, 500)
    assert caplog.messages == ["one broker has not answered for 1 s (broker-1:9094: connection refused)"]
    answers = True
    await nodes.call(ask, 900)
    answers = False
    with pytest.raises(NoBrokerReachable):
        await nodes.call(ask, 1_100)
    assert len(caplog.messages) == 1
    with pytest.raises(NoBrokerReachable):
        await nodes.call(ask, 5_000)
    assert len(caplog.messages) == 2


class Addresses:
    """What each address says; the names of those that say nothing wrong are answers."""

    def __init__(self, **said: KraftError | None) -> None:
        self.said = said
        self.asked: list[str] = []
        backoff = Backoff(first_ms=100, max_ms=300, chance=lambda: 0.5)
        self._nodes = AnyBroker(list(said), backoff, LoopClock())

    async def call(self) -> str:
        async def ask(address: str, _: float) -> str:
            self.asked.append(address)
            if (error := self.said[address]) is not None:
                raise error
            return address

        return await self._nodes.call(ask, TIMEOUT_MS)

    async def failure(self) -> tuple[KraftError, int]:
        """The error, and the milliseconds until it was raised."""
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(KraftError) as caught:
            await self.call()
        return caught.value, round(1_000 * (asyncio.get_running_loop().time() - began_s))


NO_TLS = AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "first: it has no TLS")
NO_LOGIN = AuthenticationFailed(ErrorCode.ILLEGAL_SASL_STATE, "first: it requires a login")
WRONG_PASSWORD = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "first refused user 'alice'")
NO_ELECTION = Refusal(ErrorCode.NOT_CONTROLLER, "no controller is active")
AWAY = Unreachable("second", "connection refused", nobody_listens=True)


@pytest.mark.parametrize("misfit", [NO_TLS, NO_LOGIN])
async def test_the_next_address_is_tried_after_one_that_does_not_fit(misfit: AuthenticationFailed) -> None:
    nodes = Addresses(first=misfit, second=None)
    assert await nodes.call() == "second"
    assert nodes.asked == ["first", "second"]


@pytest.mark.parametrize("misfit", [NO_TLS, NO_LOGIN])
@pytest.mark.parametrize("other", [AWAY, NO_TLS])
async def test_a_call_ends_at_once_if_the_others_do_not_help(misfit: AuthenticationFailed, other: KraftError) -> None:
    assert await Addresses(first=misfit, second=other).failure() == (misfit, 0)


async def test_a_wrong_password_is_tried_once() -> None:
    nodes = Addresses(first=WRONG_PASSWORD, second=None)
    assert await nodes.failure() == (WRONG_PASSWORD, 0)
    assert nodes.asked == ["first"]


async def test_an_address_that_does_not_fit_ends_no_call_during_an_election() -> None:
    error, after_ms = await Addresses(first=NO_TLS, second=NO_ELECTION).failure()
    assert error is NO_ELECTION
    assert after_ms > TIMEOUT_MS - 1_000


async def test_an_address_that_does_not_fit_ends_no_call_while_the_known_cluster_restarts() -> None:
    nodes = Addresses(first=NO_TLS, second=None)
    await nodes.call()
    nodes.said["second"] = AWAY
    error, after_ms = await nodes.failure()
    assert isinstance(error, NoBrokerReachable)
    assert "first: it has no TLS" in str(error)
    assert after_ms > TIMEOUT_MS - 1_000
