"""Who may stand as a candidate, and when others may; without I/O.

A candidate raises the term, and with it every voter that hears of it leaves its leader. So a voter first asks the
others whether they would vote for it, which changes nothing (the Raft thesis, 9.6), and nobody would, or does, while
it hears a leader that lives, or has just voted for another. A voter that was cut off, or hears nobody, then disturbs no
one when it comes back, and of two that lead one after the other, the first gives way.
"""

from __future__ import annotations


class LeaderWatch:
    """Whether there is a leader that lives, or may soon be one, as far as this voter hears."""

    def __init__(self, timeout_ms: int, started_at_ms: int | None) -> None:
        """A leader is taken to live for `timeout_ms` after it was heard, or voted for.

        With `started_at_ms`, this voter took part before, and there may be one which it had no time to hear yet.
        """
        self._timeout_ms = timeout_ms
        self._leader: int | None = None
        self._heard_at_ms = started_at_ms

    def heard(self, leader: int, now_ms: int) -> None:
        """Or voted for; a candidate votes for itself."""
        self._leader, self._heard_at_ms = leader, now_ms

    def is_led_by_other_than(self, voter: int, now_ms: int) -> bool:
        """A leader that asks for votes itself has given up its leadership."""
        return voter != self._leader and self._heard_at_ms is not None and now_ms - self._heard_at_ms < self._timeout_ms


class Canvass:
    """What the other voters have promised in this round: to vote for this one in a term, should it stand."""

    def __init__(self, voter_count: int) -> None:
        self._majority = voter_count // 2 + 1
        self._term = -1
        self._promises: set[int] = set()
        self._next_round_ms = 0

    def begin(self, term: int, next_round_ms: int) -> None:
        """The others are asked; again at `next_round_ms`, should they not be enough."""
        self._term, self._promises, self._next_round_ms = term, set(), next_round_ms

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self._next_round_ms

    @property
    def is_open(self) -> bool:
        return self._term >= 0

    def promised(self, voter: int, term: int) -> None:
        if term == self._term:
            self._promises.add(voter)

    def is_won(self, term: int) -> bool:
        """A majority, with this voter, would vote for it in that term."""
        return term == self._term and len(self._promises) + 1 >= self._majority

    def end(self) -> None:
        """There is a leader, or this voter stands: what was promised is void."""
        self._term, self._next_round_ms = -1, 0
