"""What stands between the network and the engine, because of what the engine does not check itself.

A follower of PySyncObj truncates its log behind every append it accepts, also where the entries already match, and
so can drop an entry that it acknowledged. A leader counts an acknowledgement from an earlier term, takes any index
from an answer, and counts one voter's vote as often as it arrives. Here this is put right on values, without I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from kraft.quorum.journal import FIRST_INDEX
from kraft.quorum.messages import Append, AppendResponse


class Diverged(Exception):
    """A leader contradicts what this voter has already applied. One of the two has lost its log; this one stops."""


class LogView(Protocol):
    @property
    def last_index(self) -> int: ...

    def term_at(self, index: int) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedAppend:
    """What of an append is left for the engine.

    With `held_index`, everything up to there is already in the log and there is nothing to store: the engine is shown a
    sign of life with `commit_index`, and the answer is given without it. Otherwise it gets `append`.
    """

    append: Append
    commit_index: int
    held_index: int | None


def trim_append(append: Append, log: LogView, last_applied: int) -> TrimmedAppend:
    """Takes away the entries that the log already holds, so that only a real conflict truncates it.

    The commit index is held down to what the append itself proves to be the leader's: the log may be longer, with
    entries of another leader. An append that does not fit the log is passed on for the engine to refuse.
    Raises Diverged.
    """
    verified_index = append.previous_index + len(append.entries)
    commit_index = min(append.commit_index, verified_index)
    if log.term_at(append.previous_index) != append.previous_term:
        return TrimmedAppend(
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
    trimmed = Append(
        term=append.term,
        previous_index=held_index,
        previous_term=append.previous_term if held_count == 0 else append.entries[held_count - 1][2],
        entries=rest,
        commit_index=commit_index,
    )
    return TrimmedAppend(append=trimmed, commit_index=commit_index, held_index=None if rest else held_index)


RESEND_PERIOD_MS = 50
"""How long the answers to what was sent again may take to come."""


class Acknowledgements:
    """What the followers of one leadership have confirmed."""

    def __init__(self) -> None:
        self._term = -1
        self._match_index: dict[int, int] = {}
        self._resent: dict[int, tuple[int, int]] = {}
        """By voter: from which index it was last sent entries again, and when."""

    def begin(self, term: int) -> None:
        """A leadership begins: nothing is known of anybody."""
        self._term = term
        self._match_index = {}
        self._resent = {}

    def match_index(self, voter: int) -> int:
        """The voter holds everything up to here; -1 when it has not answered."""
        return self._match_index.get(voter, -1)

    def admit(self, voter: int, response: AppendResponse, last_index: int, now_ms: int) -> AppendResponse | None:
        """The response as the engine may see it, None when it must not.

        A reset makes the leader send again all that follows. It is held between what the voter has confirmed and the
        end of the log, since the engine would look for what is not there; and where one gap makes a voter refuse many
        appends, the leader is reset once, or their number would multiply.
        """
        if response.term != self._term:
            return None
        if response.success:
            if not FIRST_INDEX < response.next_index <= last_index + 1:
                return None
            self._match_index[voter] = max(self.match_index(voter), response.next_index - 1)
            return response
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


class BallotBox:
    """Counts a voter once in a term."""

    def __init__(self) -> None:
        self._term = -1
        self._voters: set[int] = set()

    def admit(self, voter: int, vote_term: int, current_term: int) -> bool:
        """Whether the vote is for the current term and the voter's first in it."""
        if vote_term != current_term:
            return False
        if self._term != current_term:
            self._term, self._voters = current_term, set()
        if voter in self._voters:
            return False
        self._voters.add(voter)
        return True
