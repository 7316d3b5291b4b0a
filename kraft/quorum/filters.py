"""Filters between the network and the engine, for what the engine does not check itself. No I/O.

A follower of PySyncObj truncates its log after every append it accepts, even if the entries already match, and so can
drop an entry that it acknowledged. A leader counts an acknowledgement from an earlier term, accepts any index in a
response, and counts a voter's vote as often as it arrives.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from kraft.quorum.journal import FIRST_INDEX
from kraft.quorum.messages import AppendEntries, AppendEntriesResponse


class Diverged(Exception):
    """A leader contradicts an entry that this voter has applied: one of the two lost its log. This voter stops."""


class LogView(Protocol):
    @property
    def last_index(self) -> int: ...

    def term_at(self, index: int) -> int | None: ...


class TrimmedAppendEntries(Struct, frozen=True, kw_only=True):
    """The part of an append that the engine still needs.

    With `held_index`, everything up to there is already in the log and there is nothing to store: the engine gets a
    heartbeat with `commit_index`, and the transport responds. Otherwise the engine gets `append`.
    """

    append: AppendEntries
    commit_index: int
    held_index: int | None


def trim_append(append: AppendEntries, log: LogView, last_applied: int) -> TrimmedAppendEntries:
    """Remove the entries that the log already holds, so that only a real conflict truncates it.

    The commit index is lowered to the last entry that the append proves to be the leader's: the log may be longer,
    with entries of another leader. An append that does not fit the log is left for the engine to refuse.
    Raises Diverged.
    """
    verified_index = append.previous_index + len(append.entries)
    commit_index = min(append.commit_index, verified_index)
    if log.term_at(append.previous_index) != append.previous_term:
        return TrimmedAppendEntries(
            append=replace(append, commit_index=commit_index), commit_index=commit_index, held_index=None
        )
    held_count = 0
    for _, index, term in append.entries:
        if log.term_at(index) != term:
            break
        held_count += 1
    rest = append.entries[held_count:]
    if rest and rest[0][1] <= last_applied:
        raise Diverged(f"entry {rest[0][1]} of term {rest[0][2]} contradicts an entry that was applied here")
    held_index = append.previous_index + held_count
    trimmed = AppendEntries(
        term=append.term,
        previous_index=held_index,
        previous_term=append.previous_term if held_count == 0 else append.entries[held_count - 1][2],
        entries=rest,
        commit_index=commit_index,
    )
    return TrimmedAppendEntries(append=trimmed, commit_index=commit_index, held_index=None if rest else held_index)


RESEND_PERIOD_MS = 50
"""Pause before the same entries are sent to a voter again: its responses may still be under way."""


class Acknowledgements:
    """The entries that each follower has confirmed to the leader of one term."""

    def __init__(self) -> None:
        self._term = -1
        self._match_index: dict[int, int] = {}
        self._resent: dict[int, tuple[int, int]] = {}
        """Index from which entries were last sent again, and the time, by voter."""

    def begin(self, term: int) -> None:
        """Start the term of a new leader: no follower has confirmed anything yet."""
        self._term = term
        self._match_index = {}
        self._resent = {}

    def forget(self, voter: int) -> None:
        """Forget what the voter has confirmed: it came back as another incarnation."""
        self._match_index.pop(voter, None)
        self._resent.pop(voter, None)

    def match_index(self, voter: int) -> int:
        """Return the last entry that the voter is known to hold; -1 if it has not responded."""
        return self._match_index.get(voter, -1)

    def admit(
        self, voter: int, response: AppendEntriesResponse, last_index: int, now_ms: int
    ) -> AppendEntriesResponse | None:
        """Return the response as the engine may see it, None if it must not see it.

        A reset makes the leader send all following entries again. Its index is kept between what the voter has
        confirmed and the end of the log, since the engine would look for entries that are not there. If one gap makes a
        voter refuse many appends, only one reset passes; otherwise the appends would multiply.

        A learner's confirmation does not count: it only moves the place from which the leader continues.
        """
        if response.term != self._term:
            return None
        if response.success:
            if not FIRST_INDEX < response.next_index <= last_index + 1:
                return None
            is_progress = response.next_index - 1 > self.match_index(voter)
            self._match_index[voter] = max(self.match_index(voter), response.next_index - 1)
            return replace(response, success=False, reset=is_progress) if response.is_learner else response
        lowest = max(self.match_index(voter), FIRST_INDEX) + 1
        next_index = min(max(response.next_index, lowest), last_index + 1)
        reset = response.reset and self._may_resend(voter, next_index, now_ms)
        return replace(response, next_index=next_index, reset=reset)

    def _may_resend(self, voter: int, next_index: int, now_ms: int) -> bool:
        resent_index, resent_at_ms = self._resent.get(voter, (next_index + 1, now_ms))
        if next_index >= resent_index and now_ms - resent_at_ms < RESEND_PERIOD_MS:
            return False
        self._resent[voter] = next_index, now_ms
        return True


class VoteCounter:
    """Counts a voter once in a term."""

    def __init__(self) -> None:
        self._term = -1
        self._voters: set[int] = set()

    def admit(self, voter: int, vote_term: int, current_term: int) -> bool:
        """Return whether the vote is for the current term and the voter's first in it."""
        if vote_term != current_term:
            return False
        if self._term != current_term:
            self._term, self._voters = current_term, set()
        if voter in self._voters:
            return False
        self._voters.add(voter)
        return True
