from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.server.process import connection_rules
from kraft.server.process.connection_rules import (
    ARRIVAL_S_MAX,
    OVERFULL_S_MAX,
    PART_BYTES_MIN,
    STRANGER_S_MAX,
    STRANGER_S_MIN,
    ConnectionRules,
    Sample,
)

MESSAGE = 1_000_000
LOGIN = 20_000


class Connections:
    """Connections of a listener with 10 places and messages of MESSAGE bytes, and the rules for them."""

    def __init__(self, login_bytes_max: int | None = None, host_max: Callable[[str], int] | None = None) -> None:
        self.rules = ConnectionRules(
            connections_max=10, message_bytes_max=MESSAGE, login_bytes_max=login_bytes_max, host_max=host_max
        )
        self.samples: dict[str, Sample] = {}
        self.now_s = 100.0

    def receive(
        self,
        peer: str,
        received: int = 0,
        explained: int = 0,
        messages: int = 0,
        stranger: bool = False,
        settled: int | None = None,
        old_calls: int = 1,
        flooding: bool = False,
        host: str = "",
    ) -> None:
        """`settled` is the number of bytes that no open call holds; None if that is not known."""
        before = self.samples.get(peer) or Sample(
            peer=peer, host=host, received_bytes=0, explained_bytes=0, messages=0, is_stranger=stranger
        )
        self.samples[peer] = Sample(
            peer=peer,
            host=before.host,
            received_bytes=before.received_bytes + received,
            explained_bytes=before.explained_bytes + explained,
            messages=before.messages + messages,
            is_stranger=stranger,
            settled_bytes=0 if settled is None else settled,
            old_calls=10 if settled is None else old_calls,
            is_flooding=flooding,
        )

    def ended(self, after_s: float = 0.0) -> dict[str, str]:
        """The connections to end after so much time, with the reasons."""
        self.now_s += after_s
        ended = {each.peer: each.reason for each in self.rules.look(list(self.samples.values()), self.now_s)}
        for peer in ended:
            del self.samples[peer]
        return ended


@pytest.fixture
def connections() -> Connections:
    return Connections()


def test_messages_that_come_out_whole_end_nothing(connections: Connections) -> None:
    for _ in range(100):
        connections.receive("honest", received=MESSAGE, explained=MESSAGE + 100, messages=1)
        assert connections.ended(after_s=1) == {}
    assert connections.rules.unfinished_bytes == 0


def test_a_message_that_does_not_go_on_ends_its_connection_after_a_while(connections: Connections) -> None:
    connections.receive("stuck", received=PART_BYTES_MIN)
    connections.receive("idle", received=PART_BYTES_MIN - 1)
    assert connections.ended() == {}
    assert connections.ended(after_s=ARRIVAL_S_MAX - 1) == {}
    (reason,) = [connections.ended(after_s=1)["stuck"]]
    assert "had not arrived completely after 60 s" in reason
    assert connections.ended(after_s=10 * ARRIVAL_S_MAX) == {}


def test_a_connection_whose_messages_are_completed_is_slow_at_most(connections: Connections) -> None:
    connections.receive("busy", received=MESSAGE)
    for _ in range(3):
        connections.receive("busy", received=PART_BYTES_MIN, explained=PART_BYTES_MIN, messages=1)
        assert connections.ended(after_s=ARRIVAL_S_MAX - 1) == {}


def test_an_allowance_that_was_not_needed_is_not_saved_up(connections: Connections) -> None:
    connections.receive("saver", received=1, explained=50 * MESSAGE, messages=1)
    connections.ended()
    connections.receive("saver", received=MESSAGE)
    connections.ended()
    assert connections.rules.unfinished_bytes == MESSAGE


def test_a_connection_that_holds_more_than_its_share_ends_soon(connections: Connections) -> None:
    connections.receive("greedy", received=2 * MESSAGE + 1)
    assert connections.ended() == {}
    assert connections.rules.looks_again_soon
    connections.receive("greedy", received=14, explained=14, messages=1)
    assert "unfinished requests are larger than 2000000" in connections.ended(after_s=OVERFULL_S_MAX)["greedy"]


def test_what_a_burst_holds_for_a_moment_ends_nothing(connections: Connections) -> None:
    connections.receive("burst", received=9 * MESSAGE)
    assert connections.ended() == {}
    connections.receive("burst", explained=9 * MESSAGE, messages=9)
    assert connections.ended(after_s=OVERFULL_S_MAX) == {}


def test_when_all_together_keep_too_much_those_end_first_that_complete_nothing(connections: Connections) -> None:
    for peer in ("a", "b", "c"):
        connections.receive(peer, received=2 * MESSAGE)
    connections.receive("honest", received=MESSAGE)
    assert connections.ended() == {}
    connections.receive("honest", received=MESSAGE, explained=MESSAGE, messages=1)
    ended = connections.ended(after_s=0.1)
    assert len(ended) == 2
    assert ended.keys() < {"a", "b", "c"}
    assert set(ended.values()) == {"unfinished requests of all clients fill their memory budget"}
    assert connections.ended(after_s=0.1) == {}


def test_busy_connections_end_only_when_all_together_keep_twice_as_much(connections: Connections) -> None:
    busy = ("a", "b", "c", "d")
    for peer in busy:
        connections.receive(peer, received=2 * MESSAGE)
    assert connections.ended() == {}
    for peer in busy:
        connections.receive(peer, received=14, explained=14, messages=1)
    assert connections.ended(after_s=0.1) == {}
    connections.receive("e", received=MESSAGE)
    for peer in busy:
        connections.receive(peer, received=14, explained=14, messages=1)
    assert connections.ended(after_s=0.1) == {}
    for peer in (*busy, "e"):
        connections.receive(peer, received=14, explained=14, messages=1)
    assert len(connections.ended(after_s=0.1)) == 1


def test_strangers_end_in_a_crowd_only_and_after_a_second(connections: Connections) -> None:
    for number in range(5):
        connections.receive(f"stranger {number}", stranger=True)
    assert connections.ended(after_s=100) == {}
    assert connections.ended(after_s=STRANGER_S_MAX) == {}
    connections.receive("client")
    connections.receive("new", stranger=True)
    ended = connections.ended()
    assert ended.keys() == {f"stranger {number}" for number in range(5)}
    for number in range(5):
        connections.receive(f"another {number}", stranger=True)
    assert connections.ended(after_s=STRANGER_S_MAX / 2) == {}
    assert connections.ended(after_s=STRANGER_S_MAX / 2).keys() == {"new"}
    assert connections.ended(after_s=STRANGER_S_MAX).keys() == {f"another {number}" for number in range(5)}


def test_room_is_made_for_those_that_knock_when_nearly_all_places_are_taken(connections: Connections) -> None:
    connections.receive("first", messages=1, stranger=True)
    connections.ended()
    for number in range(9):
        connections.receive(f"stranger {number}", stranger=True)
        assert connections.ended(after_s=0.01) == {}
    assert connections.ended(after_s=STRANGER_S_MIN - 0.02).keys() == {"stranger 0", "stranger 1"}
    assert connections.ended(after_s=STRANGER_S_MIN) == {}, "there is room"
    connections.receive("node")
    connections.receive("another node")
    assert connections.ended().keys() == {"stranger 2", "stranger 3"}, "those of nodes stay"


def test_what_a_call_held_that_has_ended_is_not_unfinished(connections: Connections) -> None:
    connections.receive("honest", received=MESSAGE)
    connections.ended()
    connections.receive("honest", settled=MESSAGE, old_calls=0)
    connections.ended(after_s=1)
    assert connections.rules.unfinished_bytes == 0
    assert connections.ended(after_s=ARRIVAL_S_MAX) == {}


def test_a_message_that_completes_a_call_explains_nothing_of_the_next_one(connections: Connections) -> None:
    connections.receive("flood", received=MESSAGE)
    connections.ended()
    connections.receive("flood", received=MESSAGE, explained=MESSAGE, messages=1, settled=MESSAGE, old_calls=0)
    connections.ended()
    assert connections.rules.unfinished_bytes == MESSAGE


def test_an_open_call_is_held_against_its_connection_as_far_as_one_can_hold_parts(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_rules, "AHEAD_BYTES_MAX", MESSAGE)
    for _ in range(10):
        # Uploads that are cancelled, beside a stream that is open, and silent.
        connections.receive("honest", received=MESSAGE // 2, settled=0, old_calls=1)
        assert connections.ended(after_s=OVERFULL_S_MAX) == {}
    assert connections.rules.unfinished_bytes == MESSAGE * 3 // 2


def test_what_arrived_before_all_open_calls_were_settled_is_forgiven(connections: Connections) -> None:
    connections.receive("honest", received=2 * MESSAGE)
    connections.ended()
    connections.receive("honest", received=100, settled=2 * MESSAGE, old_calls=1)
    connections.ended()
    assert connections.rules.unfinished_bytes == 100


def test_a_connection_with_too_many_calls_without_a_message_ends_at_once(connections: Connections) -> None:
    connections.receive("honest")
    connections.receive("flood", flooding=True)
    assert connections.ended() == {"flood": "it began too many calls that brought no message"}


def test_a_crowd_without_strangers_is_not_looked_at_sooner(connections: Connections) -> None:
    for number in range(6):
        connections.receive(f"client {number}")
    connections.ended()
    assert not connections.rules.looks_again_soon
    connections.receive("stranger", stranger=True)
    connections.ended()
    assert connections.rules.looks_again_soon


def test_where_clients_have_to_log_in_a_stranger_holds_no_more_than_a_login_is_long() -> None:
    connections = Connections(login_bytes_max=LOGIN)
    connections.receive("stranger", received=3 * LOGIN, stranger=True)
    connections.receive("client", received=3 * LOGIN)
    assert connections.ended() == {}
    assert connections.rules.looks_again_soon
    assert connections.ended(OVERFULL_S_MAX) == {
        "stranger": f"its unfinished requests are larger than {2 * LOGIN} bytes"
    }


def test_strangers_have_a_budget_of_their_own_and_clients_keep_theirs() -> None:
    connections = Connections(login_bytes_max=LOGIN)
    for number in range(40):
        connections.receive(f"stranger {number}", received=LOGIN + number, stranger=True)
    connections.receive("client", received=MESSAGE)
    connections.ended()
    ended = connections.ended(0.1)
    assert sorted(ended) == sorted(f"stranger {number}" for number in range(31, 40))
    assert set(ended.values()) == {"unfinished requests of clients that have not logged in fill their memory budget"}


def test_a_stranger_that_logs_in_may_hold_what_clients_may() -> None:
    connections = Connections(login_bytes_max=LOGIN)
    connections.receive("peer", received=3 * LOGIN, stranger=True)
    connections.ended()
    connections.receive("peer")
    assert connections.ended(OVERFULL_S_MAX) == {}


def test_an_address_has_its_limit_and_what_came_last_ends() -> None:
    connections = Connections(host_max=lambda host: 3 if host == "10.0.0.9" else 2)
    for peer in ("first", "second"):
        connections.receive(peer, host="10.0.0.1")
        assert connections.ended(after_s=1) == {}
    for number in range(3):
        connections.receive(f"of another {number}", host="10.0.0.9")
    connections.receive("third", host="10.0.0.1")
    reason = "too many connections of 10.0.0.1: raise max.connections.per.ip, which allows 2"
    assert connections.ended(after_s=1) == {"third": reason}
    connections.receive("fourth", host="10.0.0.1")
    connections.receive("of another 3", host="10.0.0.9")
    assert connections.ended(after_s=1).keys() == {"fourth", "of another 3"}


def test_of_connections_of_an_address_that_came_together_strangers_end_first() -> None:
    connections = Connections(host_max=lambda _: 1)
    connections.receive("stranger", stranger=True)
    connections.receive("client", messages=1)
    assert connections.ended().keys() == {"stranger"}
