from __future__ import annotations

from msgspec.structs import replace

from kraft.model.describe_quorum import QuorumDescription, QuorumMember
from kraft.model.errors import ErrorCode
from kraft.server.handlers.leaderless_quorum import leaderless

NOW_MS = 1_800_000_000_000


def seen_by(voter: int, last_heard_ms: dict[int, int], *, term: int = 3, commit_index: int = 40) -> QuorumDescription:
    """The answer of a voter that does not lead."""
    members = [
        QuorumMember(node_id=each, log_end_offset=41 if each == voter else -1, last_fetch_timestamp_ms=last_ms)
        for each, last_ms in {**last_heard_ms, voter: NOW_MS}.items()
    ]
    return QuorumDescription(cluster_id="c", leader_epoch=term, high_watermark=commit_index, voters=members)


def test_one_of_three_voters_reports_who_is_missing_and_since_when() -> None:
    alone = seen_by(1, {2: NOW_MS - 12_000, 3: -1})
    found = leaderless({1: alone, 2: None, 3: None}, {}, asked_by=1, now_ms=NOW_MS)
    assert (found.error_code, found.leader_id) == (ErrorCode.NOT_CONTROLLER, -1)
    assert (found.leader_epoch, found.high_watermark, found.cluster_id) == (3, 40, "c")
    assert [(voter.node_id, voter.unreachable, voter.last_fetch_ms_ago) for voter in found.voters] == [
        (1, False, 0),
        (2, True, 12_000),
        (3, True, -1),
    ]
    assert "node 1 reaches 1 of 3 voters, and 2 are needed" in found.error_message
    assert "voter 2 (since 2027-01-15 07:59:48 UTC, 12 s ago)" in found.error_message
    assert "voter 3 (never heard from)" in found.error_message


def test_the_latest_contact_that_anybody_reports_counts() -> None:
    answers = {1: seen_by(1, {2: NOW_MS, 3: NOW_MS - 9_000}), 2: seen_by(2, {1: NOW_MS, 3: NOW_MS - 4_000}), 3: None}
    assert leaderless(answers, {3: NOW_MS - 6_000}, asked_by=7, now_ms=NOW_MS).voters[2].last_fetch_ms_ago == 4_000
    assert leaderless(answers, {3: NOW_MS - 1_000}, asked_by=7, now_ms=NOW_MS).voters[2].last_fetch_ms_ago == 1_000


def test_a_majority_without_a_leader_is_said_to_have_none() -> None:
    answers = {1: seen_by(1, {}), 2: seen_by(2, {}), 3: None}
    assert (
        "2 of 3 voters answer node 7, but have no leader"
        in leaderless(answers, {}, asked_by=7, now_ms=NOW_MS).error_message
    )
    everybody = {1: seen_by(1, {}), 2: seen_by(2, {})}
    assert "all 2 voters answer node 7" in leaderless(everybody, {}, asked_by=7, now_ms=NOW_MS).error_message


def test_a_broker_that_reaches_no_voter_knows_when_it_last_did() -> None:
    found = leaderless({1: None}, {1: NOW_MS - 3_000}, asked_by=7, now_ms=NOW_MS)
    assert "node 7 reaches 0 of 1 voters" in found.error_message
    assert (found.high_watermark, found.voters[0].last_fetch_ms_ago) == (-1, 3_000)


def learner(voter: int, learners: set[int]) -> QuorumDescription:
    """The answer of a voter that knows that these voters, of which it may be one, are learners."""
    answer = seen_by(voter, dict.fromkeys({1, 2, 3} - {voter}, NOW_MS))
    return replace(answer, voters=[replace(each, is_learner=each.node_id in learners) for each in answer.voters])


def test_a_learner_that_nobody_can_admit_is_shown_as_one_with_the_voter_to_start() -> None:
    answers = {1: learner(1, {3}), 2: None, 3: learner(3, {3})}
    found = leaderless(answers, {}, asked_by=1, now_ms=NOW_MS)
    assert [voter.is_learner for voter in found.voters] == [False, False, True]
    assert found.error_message.startswith(
        "no controller is active: voter 3 lost its metadata log and does not count until a leader admits it: start"
        " voter 2; unreachable: voter 2 ("
    )


def test_a_voter_says_itself_whether_it_is_a_learner_and_others_only_while_it_does_not_answer() -> None:
    stale = learner(1, {3})
    admitted = {1: stale, 2: None, 3: learner(3, set())}
    assert not leaderless(admitted, {}, asked_by=1, now_ms=NOW_MS).voters[2].is_learner
    silent = {1: stale, 2: learner(2, set()), 3: None}
    assert leaderless(silent, {}, asked_by=1, now_ms=NOW_MS).voters[2].is_learner


def test_of_a_lost_majority_it_is_said_who_has_the_metadata() -> None:
    lost = {1, 3}
    answers = {voter: learner(voter, lost) for voter in (1, 2, 3)}
    assert leaderless(answers, {}, asked_by=2, now_ms=NOW_MS).error_message == (
        "no controller is active: voters 1 and 3 have lost their metadata logs; only node 2 has the metadata: do not"
        " delete it"
    )
