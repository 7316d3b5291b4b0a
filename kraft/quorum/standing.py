"""The membership of this voter, and what the other voters say of theirs.

A quorum is formed once, by all voters together: by a majority alone, two voters whose directories were lost would form
an empty one beside the third. While a voter belongs to no quorum, it collects the incarnations of all others. It wants
to form a quorum of exactly these, and grants a pre-vote to a voter that wants to form the same. Once all have granted
it, the candidate belongs to the quorum and asks for votes; the others join when they hear from it. What a voter knows
of the others only moves forward, so of two different sets at most one is granted by all.

A voter whose journal is of a version without memberships derives its quorum from its configuration, which may name
voters that never had a part in it. Until a majority is known to belong to it, the voter votes in it, but neither stores
its founders nor names them to others: a new voter would become a learner of a quorum that nobody can lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import structlog
from msgspec.structs import replace

from kraft.quorum.config import QuorumConfig
from kraft.quorum.handshake import Greeting
from kraft.quorum.membership import Membership
from kraft.quorum.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    QuorumIntroduction,
    SnapshotPart,
    VoteRequest,
)

log = structlog.get_logger(__name__)


class MembershipStore(Protocol):
    def set_membership(self, membership: Membership) -> None:
        """Store the membership with the next write; messages that depend on it wait for that."""


class Standing:
    def __init__(
        self, config: QuorumConfig, membership: Membership, store: MembershipStore, *, is_confirmed: bool = True
    ) -> None:
        self.membership = membership
        self.is_confirmed = is_confirmed
        """False while the founders only follow from the configuration."""
        self._node_id = config.node_id
        self._voters = frozenset(config.voters)
        self._store = store
        self._greetings: dict[int, Greeting] = {}
        """The last greeting of each other voter."""
        self._unequal_logs: dict[int, tuple[int, int]] = {}
        self._log_learner("it has not been admitted yet")

    # --- the other voters ------------------------------------------------------------------------------------------

    def greeted(self, peer: int, greeting: Greeting) -> Greeting | None:
        """Note a greeting, and join the quorum that it names if this voter belongs to none.

        Return the voter's greeting before this one.
        """
        earlier = self._greetings.get(peer)
        self._greetings[peer] = greeting
        self._join(greeting.founders)
        if not self.is_confirmed:
            self._compare(peer, earlier, greeting)
        return earlier

    def noted(self, peer: int, *, is_learner: bool) -> None:
        """Note whether the voter says that it is a learner."""
        greeting = self._greetings.get(peer)
        if greeting is not None and greeting.is_learner != is_learner:
            self._greetings[peer] = replace(greeting, is_learner=is_learner)

    def is_learner(self, peer: int) -> bool:
        return peer in self._greetings and self._greetings[peer].is_learner

    @property
    def learners(self) -> frozenset[int]:
        """The other voters that say that they are learners."""
        return frozenset(peer for peer, greeting in self._greetings.items() if greeting.is_learner)

    def incarnation_of(self, peer: int) -> bytes:
        """Return the voter's incarnation; empty if it has not said one."""
        return self._greetings[peer].incarnation if peer in self._greetings else b""

    # --- the quorum --------------------------------------------------------------------------------------------------

    @property
    def proposed_founders(self) -> Mapping[int, bytes] | None:
        """The founders of the quorum that this voter wants to form; None while one is missing or belongs to another."""
        founders = {self._node_id: self.membership.incarnation}
        for peer, greeting in self._greetings.items():
            if greeting.incarnation and not greeting.founders:
                founders[peer] = greeting.incarnation
        return founders if founders.keys() == self._voters else None

    def accepts(self, peer: int, message: Message) -> bool:
        """Return whether the message is from this voter's quorum, and of the sender's current incarnation.

        A voter that belongs to no quorum joins the one that the message names.
        """
        match message:
            case PreVoteRequest(forms=True):
                if not self._is_current(peer, message.incarnation):
                    return False
                return self.membership.is_new and message.founders == self.proposed_founders
            case QuorumIntroduction() | VoteRequest() | PreVoteRequest():
                if not self._is_current(peer, message.incarnation):
                    return False
                self._join(message.founders)
                return not self.membership.is_new and message.founders in ({}, self.membership.founders)
            case AppendEntries() | SnapshotPart():
                return not self.membership.is_new and message.quorum_id in (b"", self.membership.quorum_id)
            case AppendEntriesResponse():
                return self._is_current(peer, message.incarnation)
            case PreVoteResponse(granted=True) if self.membership.is_new:
                return message.quorum_id == self._proposed_quorum_id
            case _:
                return not self.membership.is_new

    def _is_current(self, peer: int, incarnation: bytes) -> bool:
        # A version without incarnations names none.
        return not incarnation or incarnation == self.incarnation_of(peer)

    @property
    def _proposed_quorum_id(self) -> bytes | None:
        founders = self.proposed_founders
        return None if founders is None else self.membership.joining(founders).quorum_id

    def has_equal_log(self, peer: int, log_end: tuple[int, int], own_log_end: tuple[int, int]) -> bool:
        """Return whether the voter that wants to form a quorum has the same log, by term and index of the ends.

        Otherwise some voters have a copy of a log that others lack, or an old one.
        """
        is_equal = log_end == own_log_end
        if not is_equal and self._unequal_logs.get(peer) != log_end:
            self._unequal_logs[peer] = log_end
            log.warning(
                "quorum not formed: the metadata logs of its controllers differ",
                node=self._node_id,
                peer=peer,
                peer_ends_at=log_end[1],
                ends_at=own_log_end[1],
                remedy="stop them, and copy the log of the old controller to each new one: kraft storage format"
                " --from-controller",
            )
        return is_equal

    @property
    def named_founders(self) -> Mapping[int, bytes]:
        """The founders of this voter's quorum, as far as others may join it."""
        return self.membership.founders if self.is_confirmed else {}

    def _compare(self, peer: int, earlier: Greeting | None, greeting: Greeting) -> None:
        """Confirm the quorum once a majority was in it before incarnations; warn of a voter that was not."""
        founders = self.membership.founders
        agreeing = sum(each.incarnation == founders[voter] for voter, each in self._greetings.items())
        if greeting.founders == founders or 1 + agreeing > len(self._voters) // 2:
            self.confirm()
        elif greeting.incarnation not in (b"", founders[peer]) and (
            earlier is None or earlier.incarnation != greeting.incarnation
        ):
            log.warning(
                "quorum not confirmed: a controller has no metadata log, and this one's is of an earlier version",
                node=self._node_id,
                peer=peer,
                remedy="if this node was the only controller, stop it, name it alone in controller.quorum.voters, start"
                " and stop it once, and then see 'kraft storage grow-quorum --help'",
            )

    def confirm(self) -> None:
        """Store the quorum: a majority belongs to it, or has granted a pre-vote in it."""
        if not self.is_confirmed:
            self.is_confirmed = True
            self._change(self.membership)
            log.info("quorum confirmed", node=self._node_id, voters=sorted(self._voters))

    def form(self) -> None:
        """Join the quorum that all others have granted."""
        founders = self.proposed_founders
        assert founders is not None, "all voters have granted these founders"
        self._join(founders)

    def _join(self, founders: Mapping[int, bytes]) -> None:
        if not self.membership.is_new or founders.keys() != self._voters:
            return
        self._change(self.membership.joining(founders))
        self._log_learner("its metadata log was empty, and the quorum was formed before")
        if not self.membership.is_learner:
            log.info("quorum formed", node=self._node_id, voters=sorted(founders))

    def admit(self, term: int) -> None:
        """Note that the leader of `term` admitted this learner."""
        self._change(self.membership.admitted(term))
        log.info("controller admitted: it counts again", node=self._node_id, term=term)

    def demote(self) -> None:
        """Continue as a learner: this voter lost entries that it had acknowledged."""
        self._change(replace(self.membership, admitted_after=None))
        log.error(
            "controller lacks entries that it had acknowledged: it does not count until the leader has admitted it",
            node=self._node_id,
            remedy="check the disk, and never restore a metadata log from a backup",
        )

    def _change(self, membership: Membership) -> None:
        self.membership = membership
        self._store.set_membership(membership)

    def _log_learner(self, reason: str) -> None:
        if self.membership.is_learner:
            consequence = "controller is a learner: it does not count until the leader has admitted it"
            log.warning(consequence, node=self._node_id, reason=reason)
