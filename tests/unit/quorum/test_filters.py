from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.quorum.filters import (
    RESEND_PERIOD_MS,
    Acknowledgements,
    Diverged,
    TrimmedAppendEntries,
    VoteCounter,
    trim_append,
)
from kraft.quorum.messages import AppendEntries, AppendEntriesResponse


class ListedLog:
    """A log by the terms of its entries, the first of index 1."""

    def __init__(self, *terms: int) -> None:
        self.terms = list(terms)

    @property
    def last_index(self) -> int:
        return len(self.terms)

    def term_at(self, index: int) -> int | None:
        return self.terms[index - 1] if 1 <= index <= len(self.terms) else None


def append(previous_index: int, previous_term: int, *terms: int, commit_index: int = 1, term: int = 9) -> AppendEntries:
    entries = tuple((b"\1", index, each) for index, each in enumerate(terms, previous_index + 1))
    return AppendEntries(
        term=term,
        previous_index=previous_index,
        previous_term=previous_term,
        entries=entries,
        commit_index=commit_index,
    )


def store_as_the_engine_does(log: ListedLog, trimmed: TrimmedAppendEntries) -> list[int]:
    """The engine truncates behind every append it accepts, conflict or not."""
    message = trimmed.append
    if trimmed.held_index is not None or log.term_at(message.previous_index) != message.previous_term:
        return list(log.terms)
    return log.terms[: message.previous_index] + [term for _, _, term in message.entries]


def store_as_raft_does(log: ListedLog, message: AppendEntries) -> list[int]:
    """Truncates at the first real conflict only."""
    terms = list(log.terms)
    if log.term_at(message.previous_index) != message.previous_term:
        return terms
    for _, index, term in message.entries:
        if index > len(terms):
            terms.append(term)
        elif terms[index - 1] != term:
            terms = [*terms[: index - 1], term]
    return terms


def test_entries_that_are_held_are_taken_away_and_the_previous_entry_moves_on() -> None:
    trimmed = trim_append(append(1, 0, 2, 2, 3), ListedLog(0, 2, 2), last_applied=1)
    assert trimmed.held_index is None
    assert (trimmed.append.previous_index, trimmed.append.previous_term) == (3, 2)
    assert [(index, term) for _, index, term in trimmed.append.entries] == [(4, 3)]


def test_an_append_that_is_wholly_held_leaves_nothing_for_the_engine_to_truncate() -> None:
    trimmed = trim_append(append(1, 0, 2), ListedLog(0, 2, 2, 2), last_applied=1)
    assert trimmed.held_index == 2


def test_a_sign_of_life_in_front_of_a_longer_log_truncates_nothing() -> None:
    assert trim_append(append(2, 2), ListedLog(0, 2, 2, 2), last_applied=1).held_index == 2


def test_a_real_conflict_reaches_the_engine() -> None:
    trimmed = trim_append(append(1, 0, 2, 5), ListedLog(0, 2, 3, 3), last_applied=2)
    assert trimmed.held_index is None
    assert trimmed.append.previous_index == 2
    assert store_as_the_engine_does(ListedLog(0, 2, 3, 3), trimmed) == [0, 2, 5]


def test_an_append_that_does_not_fit_is_left_for_the_engine_to_refuse() -> None:
    for misfit in (append(7, 2, 2), append(2, 1, 2)):
        trimmed = trim_append(misfit, ListedLog(0, 2, 2), last_applied=1)
        assert trimmed.held_index is None
        assert trimmed.append == misfit


def test_the_commit_index_is_held_down_to_what_the_append_proves() -> None:
    assert trim_append(append(1, 0, 2, commit_index=4), ListedLog(0, 2, 1, 1), last_applied=1).commit_index == 2
    assert trim_append(append(1, 0, 2, 2, commit_index=2), ListedLog(0), last_applied=1).append.commit_index == 2


def test_a_leader_that_contradicts_an_applied_entry_is_not_followed() -> None:
    with pytest.raises(Diverged, match="entry 3"):
        trim_append(append(1, 0, 2, 5), ListedLog(0, 2, 3, 3), last_applied=3)


@given(
    held=st.lists(st.integers(1, 3), max_size=6).map(sorted),
    sent=st.lists(st.integers(1, 3), max_size=6).map(sorted),
    first=st.integers(0, 6),
    shown=st.integers(0, 6),
)
def test_behind_the_filter_the_engine_stores_exactly_what_raft_would(
    held: list[int], sent: list[int], first: int, shown: int
) -> None:
    log, leader = ListedLog(0, *held), [0, *sent]
    previous = min(first, len(sent))
    message = append(previous + 1, leader[previous], *leader[previous + 1 : previous + 1 + shown])
    assert store_as_the_engine_does(log, trim_append(message, log, last_applied=0)) == store_as_raft_does(log, message)


def response(term: int = 9, next_index: int = 5, *, success: bool = True, reset: bool = False) -> AppendEntriesResponse:
    return AppendEntriesResponse(term=term, next_index=next_index, success=success, reset=reset)


def test_an_acknowledgement_of_another_term_is_not_counted() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)
    assert acknowledgements.admit(2, response(term=8), last_index=10, now_ms=0) is None
    assert acknowledgements.admit(2, response(term=10), last_index=10, now_ms=0) is None
    assert acknowledgements.match_index(2) == -1
    assert acknowledgements.admit(2, response(), last_index=10, now_ms=0) == response()
    assert acknowledgements.match_index(2) == 4


def test_a_new_leadership_knows_nothing_of_the_last_one() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)
    acknowledgements.admit(2, response(), last_index=10, now_ms=0)
    acknowledgements.begin(10)
    assert acknowledgements.match_index(2) == -1


def test_an_acknowledgement_beyond_the_log_is_not_counted() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)
    assert acknowledgements.admit(2, response(next_index=12), last_index=10, now_ms=0) is None
    assert acknowledgements.admit(2, response(next_index=0), last_index=10, now_ms=0) is None


@pytest.mark.parametrize(("asked", "admitted"), [(0, 2), (1, 2), (7, 7), (11, 11), (2**63, 11)])
def test_a_reset_is_held_within_the_log(asked: int, admitted: int) -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)
    reset = acknowledgements.admit(2, response(next_index=asked, success=False, reset=True), last_index=10, now_ms=0)
    assert reset is not None
    assert reset.next_index == admitted


def test_a_reset_goes_back_no_further_than_what_the_voter_has_confirmed() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)
    acknowledgements.admit(2, response(next_index=6), last_index=10, now_ms=0)
    reset = acknowledgements.admit(2, response(next_index=3, success=False, reset=True), last_index=10, now_ms=0)
    assert reset == response(next_index=6, success=False, reset=True)


def test_many_refusals_of_one_gap_reset_the_leader_once_a_while() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.begin(9)

    def is_reset(voter: int, next_index: int, now_ms: int) -> bool:
        refusal = response(next_index=next_index, success=False, reset=True)
        admitted = acknowledgements.admit(voter, refusal, last_index=10, now_ms=now_ms)
        assert admitted is not None, "it is a sign of life all the same"
        return admitted.reset

    assert is_reset(2, next_index=5, now_ms=0)
    assert not is_reset(2, next_index=5, now_ms=1)
    assert not is_reset(2, next_index=6, now_ms=2), "sent again already"
    assert is_reset(3, next_index=6, now_ms=2)
    assert is_reset(2, next_index=4, now_ms=3), "going back through a log that differs waits for nothing"
    assert not is_reset(2, next_index=5, now_ms=3 + RESEND_PERIOD_MS - 1)
    assert is_reset(2, next_index=5, now_ms=3 + RESEND_PERIOD_MS)


def test_a_voter_is_counted_once_in_a_term_and_only_in_the_current_one() -> None:
    votes = VoteCounter()
    assert votes.admit(2, vote_term=3, current_term=3)
    assert not votes.admit(2, vote_term=3, current_term=3)
    assert votes.admit(3, vote_term=3, current_term=3)
    assert not votes.admit(4, vote_term=2, current_term=3)
    assert votes.admit(2, vote_term=4, current_term=4)
