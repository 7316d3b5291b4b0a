from __future__ import annotations

from msgspec.structs import replace

from kraft.model.describe_quorum import QuorumMember
from kraft.model.ids import BrokerId
from kraft.quorum.port import QuorumStatus, VoterStatus
from kraft.server.controller.quorum_view import OBSERVER_SILENCE_MAX_MS, QuorumView

REGISTERED = [BrokerId(broker_id) for broker_id in (1, 7, 8)]


class SettableClock:
    """A wall clock that is a million milliseconds ahead of the monotonic one."""

    def __init__(self) -> None:
        self.now_ms = 10_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + 1_000_000


def status(leader_end: int, follower_end: int, *, commit_index: int = 40) -> QuorumStatus:
    voters = (
        VoterStatus(node_id=1, match_index=leader_end, heard_ms_ago=0),
        VoterStatus(node_id=2, match_index=follower_end, heard_ms_ago=30),
        VoterStatus(node_id=3, match_index=-1, heard_ms_ago=-1),
    )
    return QuorumStatus(leader_id=1, term=5, commit_index=commit_index, voters=voters)


def test_voters_are_shown_with_what_they_lack_and_since_when() -> None:
    clock = SettableClock()
    view = QuorumView("c", clock)
    view.update(status(42, 42), 40, REGISTERED)
    clock.now_ms += 500
    description = view.describe(status(45, 42), 40, REGISTERED)
    assert (description.cluster_id, description.leader_id, description.leader_epoch) == ("c", 1, 5)
    assert description.high_watermark == 40
    assert description.voters == [
        QuorumMember(
            node_id=1,
            log_end_offset=45,
            last_fetch_ms_ago=0,
            lag=0,
            last_fetch_timestamp_ms=1_010_500,
            last_caught_up_timestamp_ms=1_010_500,
        ),
        QuorumMember(
            node_id=2,
            log_end_offset=42,
            last_fetch_ms_ago=30,
            lag=3,
            last_fetch_timestamp_ms=1_010_470,
            last_caught_up_timestamp_ms=1_010_000,
        ),
        QuorumMember(node_id=3, log_end_offset=-1),
    ]


def test_an_observer_that_acted_on_the_last_records_holds_all_that_is_committed() -> None:
    clock = SettableClock()
    view = QuorumView("c", clock)
    view.heartbeat_received(BrokerId(7), 38)
    view.heartbeat_received(BrokerId(8), 20)
    clock.now_ms += 200
    level, behind = view.describe(status(40, 40), 38, REGISTERED).observers
    assert (level.node_id, level.log_end_offset, level.lag, level.last_fetch_ms_ago) == (7, 40, 0, 200)
    assert (behind.node_id, behind.log_end_offset, behind.lag) == (8, 20, 20)
    assert (level.last_caught_up_timestamp_ms, behind.last_caught_up_timestamp_ms) == (1_010_200, -1)


def test_brokers_that_vote_were_forgotten_or_went_silent_are_no_observers() -> None:
    clock = SettableClock()
    view = QuorumView("c", clock)
    for broker_id in (1, 7, 8, 9):
        view.heartbeat_received(BrokerId(broker_id), 38)
    assert [each.node_id for each in view.describe(status(40, 40), 38, REGISTERED).observers] == [7, 8]
    clock.now_ms += OBSERVER_SILENCE_MAX_MS
    view.heartbeat_received(BrokerId(8), 38)
    clock.now_ms += 1
    assert [each.node_id for each in view.describe(status(40, 40), 38, REGISTERED).observers] == [8]


def test_a_new_reign_begins_with_nothing() -> None:
    view = QuorumView("c", SettableClock())
    view.heartbeat_received(BrokerId(7), 38)
    view.update(status(40, 40), 38, REGISTERED)
    view.reset()
    description = view.describe(status(40, 39), 38, REGISTERED)
    assert description.observers == []
    assert description.voters[1].last_caught_up_timestamp_ms == -1


def test_a_voter_is_unreachable_once_the_leader_has_not_heard_it_for_longer_than_the_fetch_timeout() -> None:
    clock = SettableClock()
    view = QuorumView("c", clock)

    def unreachable(heard_ms_ago: int) -> list[int]:
        silent = VoterStatus(node_id=2, match_index=40, heard_ms_ago=heard_ms_ago)
        leader, _, never = status(40, 40).voters
        described = view.describe(
            replace(status(40, 40), voters=(leader, silent, never), fetch_timeout_ms=3_000), 40, REGISTERED
        )
        return [voter.node_id for voter in described.voters if voter.unreachable]

    assert unreachable(3_000) == []
    assert unreachable(3_001) == [2]
    clock.now_ms += 3_001
    assert unreachable(30) == [3], "the leader has waited long enough for a first message"
    view.reset()
    assert unreachable(30) == []
