"""Pre-votes: whether a voter may become a candidate. No I/O.

A candidate raises the term, and every voter that receives the higher term leaves its leader. So a voter first asks the
others whether they would vote for it, which changes nothing (the Raft thesis, 9.6). A voter neither grants a pre-vote
nor votes while it hears from another live leader, or when it has just voted for another candidate. So a voter that was
cut off does not disturb the others when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable


class LeaderWatch:
    """Decides whether this voter has, or may soon have, a live leader."""

    def __init__(self, timeout_ms: int, started_at_ms: int | None) -> None:
        """A leader counts as live for `timeout_ms` after its last message, or after a vote for it.

        With `started_at_ms`, this voter took part before, and there may be a leader that has not sent a message yet.
        """
        self._timeout_ms = timeout_ms
        self._leader: int | None = None
        self._heard_at_ms = started_at_ms

    def heard(self, leader: int, now_ms: int) -> None:
        """Note a message from the leader, or a vote for it; a candidate votes for itself."""
        self._leader, self._heard_at_ms = leader, now_ms

    def has_leader_besides(self, voter: int, now_ms: int) -> bool:
        """Return whether there may be a live leader besides `voter`; one that asks for votes has stopped leading."""
        return voter != self._leader and self._heard_at_ms is not None and now_ms - self._heard_at_ms < self._timeout_ms


class PreVotes:
    """The pre-votes that the other voters have granted in this round, for one term."""

    def __init__(self, voter_count: int) -> None:
        self._voter_count = voter_count
        self._term = -1
        self._granted_by: set[int] = set()
        self._next_round_ms = 0

    def begin(self, term: int, next_round_ms: int, *, keeps_granted: bool = False) -> None:
        """Start a round; the next one is due at `next_round_ms`, if this one finds no majority.

        With `keeps_granted`, what earlier rounds found for the same term counts in this one, too.
        """
        if not (keeps_granted and term == self._term):
            self._granted_by = set()
        self._term, self._next_round_ms = term, next_round_ms

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self._next_round_ms

    @property
    def is_open(self) -> bool:
        return self._term >= 0

    def granted(self, voter: int, term: int) -> None:
        if term == self._term:
            self._granted_by.add(voter)

    def is_won(self, term: int, *, needs_all: bool) -> bool:
        """True if a majority, or all, this voter included, would vote for it in that term."""
        needed = self._voter_count if needs_all else self._voter_count // 2 + 1
        return term == self._term and len(self._granted_by) + 1 >= needed

    def end(self) -> None:
        """Discard the granted pre-votes: there is a leader, or this voter becomes a candidate."""
        self._term, self._next_round_ms = -1, 0


class FirstContacts:
    """Links, in both directions, that the first voter of a new cluster waits for before its first election."""

    def __init__(self, peers: Iterable[int]) -> None:
        self._missing = {(peer, is_ours) for peer in peers for is_ours in (True, False)}

    def made(self, peer: int, *, is_ours: bool) -> bool:
        """Note a link that this voter or the peer has opened. Return True once, at the last one."""
        was_missing = (peer, is_ours) in self._missing
        self._missing.discard((peer, is_ours))
        return was_missing and not self._missing
