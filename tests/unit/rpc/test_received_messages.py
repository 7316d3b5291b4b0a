from __future__ import annotations

from contextlib import ExitStack

import pytest

from kraft.model.principal import Principal
from kraft.rpc.client_gate import NODE, Caller
from kraft.rpc.received_messages import (
    EMPTY_CALLS_MAX,
    EMPTY_CALLS_PER_S,
    HEADERS_BYTES,
    KnownConnection,
    OpenCall,
    Received,
    ReceivedMessages,
)
from kraft.rpc.user_agents import Software

PEER = "ipv4:127.0.0.1:40000"


class Listener:
    """The counts of a listener, with calls of one peer."""

    def __init__(self) -> None:
        self.floods = 0
        self.now_s = 100.0
        self.received = ReceivedMessages(self._flood_began, lambda: self.now_s)
        self.calls = ExitStack()

    def begin(self, is_node: bool = False) -> OpenCall:
        call = self.calls.enter_context(self.received.call(PEER, is_node=is_node))
        assert call is not None
        return call

    def is_refused(self) -> bool:
        with self.received.call(PEER, is_node=False) as call:
            return call is None

    def look(self, received_bytes: int, since_s: float = 0.0) -> None:
        self.received.look_began()
        self.received.look_ended({PEER: received_bytes}, since_s)

    @property
    def counts(self) -> Received:
        return self.received.counts()[PEER]

    def _flood_began(self) -> None:
        self.floods += 1


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_nothing_that_arrived_before_a_call_is_held_for_it(listener: Listener) -> None:
    call = listener.begin()
    listener.look(1_000)
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (0, 1)
    listener.begin()
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (0, 1)
    listener.received.reading_began(call)
    listener.look(2_000)
    listener.received.message_came(call, 1_500)
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (1_000, 1)


def test_a_message_settles_what_had_arrived_at_a_look_during_the_wait_for_it(listener: Listener) -> None:
    call = listener.begin()
    listener.received.reading_began(call)
    listener.look(1_000)
    listener.received.message_came(call, 900)
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (1_000, 0)


def test_a_message_that_was_not_waited_for_settles_nothing(listener: Listener) -> None:
    """Parts of the next one may have arrived before the look, behind it."""
    call = listener.begin()
    listener.look(1_000)
    listener.received.reading_began(call)
    listener.received.message_came(call, 900)
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (0, 1)
    listener.received.look_began()
    listener.received.reading_began(call)
    listener.received.look_ended({PEER: 2_000}, 1.0)
    listener.received.message_came(call, 900)
    assert (listener.counts.settled_bytes, listener.counts.old_calls) == (0, 1)


def test_a_connection_with_too_many_calls_without_a_message_is_looked_at(listener: Listener) -> None:
    for _ in range(EMPTY_CALLS_MAX):
        listener.begin()
    assert listener.floods == 0
    assert listener.is_refused()
    assert listener.is_refused()
    assert listener.floods == 1
    assert listener.counts.is_flooding(102 * HEADERS_BYTES)
    assert not listener.counts.is_flooding(102 * HEADERS_BYTES + 1), "parts of messages have arrived"
    listener.look(10_000)
    assert not listener.counts.has_too_many
    assert listener.is_refused()
    assert listener.floods == 2


def test_ended_calls_without_a_message_are_forgiven_with_time_and_open_ones_are_not(listener: Listener) -> None:
    for _ in range(EMPTY_CALLS_MAX // 2):
        listener.begin()
    for _ in range(EMPTY_CALLS_MAX // 2):
        listener.received.call_refused(PEER)
    assert listener.floods == 0
    listener.look(0, since_s=1.0)
    for _ in range(EMPTY_CALLS_PER_S):
        listener.received.call_refused(PEER)
    assert listener.floods == 0
    listener.received.call_refused(PEER)
    assert listener.floods == 1
    listener.look(0, since_s=3_600.0)
    for _ in range(EMPTY_CALLS_MAX // 2):
        listener.received.call_refused(PEER)
    assert listener.floods == 1
    listener.received.call_refused(PEER)
    assert listener.floods == 2


def test_a_forgotten_connection_may_still_have_calls_that_end(listener: Listener) -> None:
    call = listener.begin()
    listener.received.forget([PEER])
    listener.received.message_came(call, 1)
    listener.calls.close()
    assert listener.received.counts() == {}


def test_a_connection_of_a_client_is_told_with_its_last_caller_and_its_messages(listener: Listener) -> None:
    alice, bob = (Caller(principal=Principal(name), client_id=f"of {name}") for name in ("alice", "bob"))
    first = listener.begin()
    listener.received.made_by(first, alice, [("user-agent", "orders/1.2 grpc-go/1.60.0")])
    listener.received.message_came(first, 10)
    listener.now_s += 5
    second = listener.begin()
    listener.received.made_by(second, bob, [("user-agent", "another/7")])
    listener.received.message_came(second, 10)
    assert list(listener.received.of_clients()) == [
        KnownConnection(peer=PEER, began_s=100.0, caller=bob, software=Software("orders", "1.2"), messages=2)
    ]
    listener.received.forget([PEER])
    assert not list(listener.received.of_clients())


@pytest.mark.parametrize("is_node", [True, False])
def test_a_connection_of_a_node_is_none_of_a_client(listener: Listener, is_node: bool) -> None:
    call = listener.begin(is_node=is_node)
    listener.received.made_by(call, Caller() if is_node else Caller(principal=Principal("2", NODE)), [])
    assert not list(listener.received.of_clients())
