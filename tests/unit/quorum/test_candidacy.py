from __future__ import annotations

from kraft.quorum.candidacy import FirstContacts, LeaderWatch, PreVotes


def test_a_leader_that_was_heard_lives_until_the_timeout_has_passed() -> None:
    watch = LeaderWatch(timeout_ms=500, started_at_ms=None)
    assert not watch.has_leader_besides(3, now_ms=0)
    watch.heard(2, now_ms=100)
    assert watch.has_leader_besides(3, now_ms=599)
    assert not watch.has_leader_besides(3, now_ms=600)


def test_a_leader_that_stands_itself_is_no_reason_against_it() -> None:
    watch = LeaderWatch(timeout_ms=500, started_at_ms=None)
    watch.heard(2, now_ms=100)
    assert not watch.has_leader_besides(2, now_ms=101)


def test_a_voter_that_took_part_before_gives_a_leader_time_to_be_heard() -> None:
    watch = LeaderWatch(timeout_ms=500, started_at_ms=1000)
    assert watch.has_leader_besides(3, now_ms=1499)
    assert not watch.has_leader_besides(3, now_ms=1500)


def test_a_canvass_is_won_by_promises_of_a_majority_for_its_term_and_round() -> None:
    pre_votes = PreVotes(voter_count=5)
    assert not pre_votes.is_won(term=4, needs_all=False)
    pre_votes.begin(4, next_round_ms=50)
    pre_votes.granted(2, term=4)
    pre_votes.granted(2, term=4)
    pre_votes.granted(3, term=5)
    assert not pre_votes.is_won(term=4, needs_all=False)
    pre_votes.granted(3, term=4)
    assert pre_votes.is_won(term=4, needs_all=False)
    assert not pre_votes.is_won(term=5, needs_all=False)
    pre_votes.begin(4, next_round_ms=100)
    assert not pre_votes.is_won(term=4, needs_all=False)


def test_the_next_round_begins_in_its_time_and_at_once_after_an_end() -> None:
    pre_votes = PreVotes(voter_count=3)
    assert pre_votes.is_due(now_ms=0)
    pre_votes.begin(4, next_round_ms=50)
    assert not pre_votes.is_due(now_ms=49)
    assert pre_votes.is_due(now_ms=50)
    pre_votes.granted(2, term=4)
    pre_votes.end()
    assert not pre_votes.is_won(term=4, needs_all=False)
    assert pre_votes.is_due(now_ms=0)


def test_all_may_grant_in_different_rounds_of_one_term() -> None:
    pre_votes = PreVotes(voter_count=3)
    pre_votes.begin(1, next_round_ms=50, keeps_granted=True)
    pre_votes.granted(2, term=1)
    pre_votes.begin(1, next_round_ms=100, keeps_granted=True)
    assert not pre_votes.is_won(1, needs_all=True)
    pre_votes.granted(3, term=1)
    assert pre_votes.is_won(1, needs_all=True)
    pre_votes.end()
    pre_votes.begin(1, next_round_ms=150, keeps_granted=True)
    assert not pre_votes.is_won(1, needs_all=True)


def test_the_last_link_of_both_directions_counts_once() -> None:
    contacts = FirstContacts([2, 3])
    assert not contacts.made(2, is_ours=True)
    assert not contacts.made(3, is_ours=True)
    assert not contacts.made(3, is_ours=True), "it was opened again"
    assert not contacts.made(3, is_ours=False)
    assert contacts.made(2, is_ours=False)
    assert not contacts.made(2, is_ours=False)


def test_who_waits_for_no_link_never_has_the_last_one() -> None:
    assert not FirstContacts([]).made(2, is_ours=True)
