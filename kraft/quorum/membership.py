"""The quorum that a voter belongs to, and whether it may vote there. No I/O.

An *incarnation* is drawn at random with an empty journal and kept in it. So a voter that lost its directory comes back
as another incarnation: its term, its vote and the entries that it acknowledged are gone, and it may not vote as if it
had never voted. A quorum is the set of incarnations that formed it, its *founders*; they are the id of the quorum, too.
A founder may vote from the beginning. Any other incarnation is a *learner*, until a leader has admitted it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

INCARNATION_BYTES: Final = 16

FOUNDING_TERM: Final = 0
"""Founders may vote in every later term."""

HOW_TO_CHANGE_VOTERS: Final = (
    "addresses may change, but new controllers need a copy of the metadata log: see 'kraft storage grow-quorum --help'"
)


class MembershipRefused(Exception):
    """This voter must not start with its configuration. The message is one line, with the remedy."""


class Membership(Struct, frozen=True, kw_only=True):
    """Membership of one voter.

    `founders` are the incarnations that formed the quorum, by voter; none while the voter belongs to no quorum yet.
    The voter may vote in terms above `admitted_after`; a learner (None) may not vote at all.
    """

    node_id: int
    incarnation: bytes
    founders: Mapping[int, bytes] = field(default_factory=dict)
    admitted_after: int | None = None
    quorum_id: bytes = b""
    """Follows from the founders; empty for none."""

    def __post_init__(self) -> None:
        # Every message of a leader names it.
        force_setattr(self, "quorum_id", quorum_id_of(self.founders))

    @property
    def is_new(self) -> bool:
        """True while the voter belongs to no quorum yet."""
        return not self.founders

    @property
    def is_learner(self) -> bool:
        return not self.is_new and self.admitted_after is None

    def may_vote_in(self, term: int) -> bool:
        return self.admitted_after is not None and term > self.admitted_after

    def joining(self, founders: Mapping[int, bytes]) -> Membership:
        """Return the membership in the quorum with these founders: as one of them, or else as a learner."""
        is_founder = founders.get(self.node_id) == self.incarnation
        return replace(self, founders=dict(founders), admitted_after=FOUNDING_TERM if is_founder else None)

    def admitted(self, term: int) -> Membership:
        """Return the membership after the leader of `term` admitted this voter, whose vote in it counts as spent."""
        return replace(self, admitted_after=term)


def quorum_id_of(founders: Mapping[int, bytes]) -> bytes:
    """Return the id of the quorum with these founders; empty for none."""
    if not founders:
        return b""
    return _digest(voter.to_bytes(8, "big") + incarnation for voter, incarnation in sorted(founders.items()))


def before_incarnations(cluster_id: str, node_id: int, voters: Iterable[int]) -> Membership:
    """Return the membership of a voter whose journal is of a version without memberships: it may vote.

    Every voter of that quorum finds the same founders, without asking the others.
    """
    founders = {voter: _digest([cluster_id.encode(), b"/%d" % voter]) for voter in voters}
    return Membership(node_id=node_id, incarnation=founders[node_id], founders=founders, admitted_after=FOUNDING_TERM)


def check_membership(membership: Membership, node_id: int, voters: Iterable[int], directory: str) -> None:
    """Check that the voter may start with this node id and these voters. Raises MembershipRefused."""
    if membership.node_id != node_id:
        raise MembershipRefused(
            f"{directory} holds the metadata log of node {membership.node_id}, not of node {node_id}: never copy it"
            " between nodes; move it away, and this node gets the log from the others"
        )
    formed, configured = sorted(membership.founders), sorted(voters)
    if formed and formed != configured:
        raise MembershipRefused(
            f"controller.quorum.voters names the nodes {_named(configured)}, but this node's quorum was formed with"
            f" {_named(formed)}: name these; {HOW_TO_CHANGE_VOTERS}"
        )


def _named(voters: Iterable[int]) -> str:
    return ", ".join(map(str, voters))


def _digest(parts: Iterable[bytes]) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=INCARNATION_BYTES).digest()
