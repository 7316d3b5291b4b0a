"""Invariants of a quorum that are checked after every event, and how they are observed from outside.

There is one leader per term. A committed entry never changes or vanishes, and is on the disks of a majority: that of a
learner does not count, and one that was lost counts until the voter that lost it is admitted. An acknowledged proposal
is committed, a refused one never is. Every state machine gets the same entries in the same order. No voter becomes a
candidate unless a majority would vote for it. A voter votes once in a term, as long as it has its directory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from kraft.quorum.command import CommandKind, decode
from kraft.quorum.engine import RaftEngine
from kraft.quorum.journal import FIRST_INDEX, Entry, QuorumJournal
from kraft.quorum.membership import Membership
from kraft.quorum.messages import AppendEntriesResponse, Message, PreVoteResponse, VoteRequest, VoteResponse


class Invariant(StrEnum):
    """A mutation test names the invariant that its mutant must break; any other failure proves nothing."""

    ONE_LEADER = "one leader per term"
    LEADER_COMPLETENESS = "a leader has every committed entry"
    ONE_VOTE = "one vote per term"
    PROMISED_CANDIDACY = "a candidate has the pre-votes of a majority"
    COMMITTED_STAYS = "committed entries stay"
    COMMITTED_BY_A_MAJORITY = "committed entries are on the disks of a majority"
    ACKNOWLEDGED_IS_DURABLE = "acknowledged entries are on the voter's disk"
    REPORTED_IS_DURABLE = "entries that a state machine gets are on the voter's disk"
    NOTHING_GOES_BACK = "term, commit index and applied index never go back"
    LOG_MATCHING = "logs match"
    STATE_MACHINES_AGREE = "state machines agree"
    PROPOSALS_ARE_KEPT = "an acknowledged proposal is committed once, a refused one never"
    READS_ARE_CURRENT = "a leader and a barrier have every acknowledged entry"
    VOTERS_GO_ON = "a voter whose disk works does not stop"
    LEARNERS_DO_NOT_VOTE = "a voter that lost its directory does not vote before it is admitted"
    ONE_QUORUM = "the voters belong to one quorum"
    PEACE_HEALS = "without faults the quorum agrees"


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, words: str) -> None:
        super().__init__(f"{invariant}: {words}")
        self.invariant = invariant


@dataclass(slots=True)
class _Disk:
    """A voter's synced journal, also while it is down."""

    journal: QuorumJournal | None = None
    synced_index: int = 0
    lost: _Disk | None = None
    """The disk that the voter had before, until it is admitted again."""
    membership: Membership | None = None
    """The membership on the disk."""

    @property
    def counts(self) -> bool:
        """Return whether the voter may vote, or belongs to no quorum because none was formed yet."""
        return self.membership is not None and self.membership.admitted_after is not None and self.lost is None

    def held(self, index: int, term: int) -> bool:
        """Return whether the entry counts as stored by this voter."""
        if self.membership is not None and self.membership.is_learner:
            return self.lost is not None and self.lost.held(index, term)
        return self.holds(index, term) or (self.lost is not None and self.lost.held(index, term))

    def note(self, journal: QuorumJournal) -> None:
        self.journal = journal
        self.synced_index = journal.synced_index
        if journal.synced:
            self.note_membership()

    def note_membership(self) -> None:
        """Note that the journal's membership is on the disk."""
        self.membership = None if self.journal is None else self.journal.membership
        if self.membership is not None and self.membership.admitted_after is not None:
            self.lost = None

    def holds(self, index: int, term: int) -> bool:
        """Return whether the entry is in the journal, or in the snapshot that the journal begins after."""
        journal = self.journal
        if journal is None or index > self.synced_index:
            return False
        return index < journal.first_index or journal.term_at(index) == term


class History:
    """The history of the whole cluster, over all lives of its voters."""

    def __init__(self, voter_count: int) -> None:
        self.committed: dict[int, Entry] = {}
        self.highest_committed = FIRST_INDEX
        self.highest_acknowledged = 0
        self.acknowledged_count = 0
        self.installed_count = 0
        self.leaders: dict[int, int] = {}
        """The voter that leads, by term, as the engine sees it."""
        self.announced: dict[int, int] = {}
        """The same as the quorum's users see it."""
        self.disks: dict[int, _Disk] = {}
        self.violations: list[Violation] = []
        """All that were ever raised, so that code under test cannot hide one by catching it."""
        self.counts_disks = True
        self._majority = voter_count // 2 + 1
        self.directories_lost = 0
        self._lives: dict[int, int] = {}
        """The number of directories that a voter lost."""
        self._votes: dict[tuple[int, int, int], int] = {}
        self._promises: dict[tuple[int, int], set[int]] = {}
        """The voters that gave a voter their pre-vote in a term."""
        self._terms: dict[int, int] = {}
        self._state_hashes: dict[int, bytes] = {}
        self._acknowledged: dict[bytes, int] = {}
        self._refused: set[bytes] = set()
        self._reported: dict[int, bytes] = {}
        self._payload_index: dict[bytes, int] = {}

    def voter_started(self, node_id: int) -> VoterWatch:
        self.disks.setdefault(node_id, _Disk())
        return VoterWatch(self, node_id)

    def directory_lost(self, node_id: int) -> None:
        self.disks[node_id] = _Disk(lost=self.disks.get(node_id))
        self.directories_lost += 1
        self._lives[node_id] = self._lives.get(node_id, 0) + 1
        self._terms.pop(node_id, None)

    def check_one_quorum(self, node_id: int) -> None:
        own = self.disks[node_id].membership
        for other_id, disk in self.disks.items():
            other = disk.membership
            if own and other and own.founders and other.founders and own.founders != other.founders:
                raise self.violation(Invariant.ONE_QUORUM, f"voters {node_id} and {other_id} belong to two quorums")

    def violation(self, invariant: Invariant, words: str) -> Violation:
        self.violations.append(Violation(invariant, words))
        return self.violations[-1]

    # --- what clients saw ----------------------------------------------------------------------------------------

    def acknowledged(self, index: int, payload: bytes) -> None:
        if self._reported.get(index) != payload:
            raise self.violation(
                Invariant.PROPOSALS_ARE_KEPT, f"the acknowledged entry {index} is not the one that was committed there"
            )
        self._acknowledged[payload] = index
        self.acknowledged_count += 1
        self.highest_acknowledged = max(self.highest_acknowledged, index)

    def refused(self, payload: bytes) -> None:
        self._refused.add(payload)
        self._check_not_refused(payload, self._payload_index.get(payload))

    def _check_not_refused(self, payload: bytes, index: int | None) -> None:
        if index is not None and payload in self._refused:
            raise self.violation(Invariant.PROPOSALS_ARE_KEPT, f"entry {index} was refused, but is committed")

    # --- messages ------------------------------------------------------------------------------------------------

    def sent(self, sender: int, receiver: int, message: Message) -> None:
        match message:
            case VoteResponse(term=term):
                self._vote(sender, term, receiver)
            case PreVoteResponse(term=term, granted=True):
                self._promises.setdefault((receiver, term), set()).add(sender)
            case VoteRequest(term=term):
                self._vote(sender, term, sender)
                self._check_candidacy(sender, term)
            case AppendEntriesResponse(success=True, next_index=next_index, is_learner=is_learner):
                journal = self.disks[sender].journal
                if not is_learner:
                    self.disks[sender].note_membership()
                if journal is None or journal.synced_index < next_index - 1:
                    raise self.violation(
                        Invariant.ACKNOWLEDGED_IS_DURABLE,
                        f"voter {sender} acknowledges entry {next_index - 1}, which is not on its disk",
                    )
            case _:
                """The other messages promise nothing."""

    def _vote(self, voter: int, term: int, candidate: int) -> None:
        journal = self.disks[voter].journal
        if journal is not None and journal.membership is not None and journal.membership.is_learner:
            raise self.violation(Invariant.LEARNERS_DO_NOT_VOTE, f"voter {voter} votes in term {term} as a learner")
        if self._votes.setdefault((voter, self._lives.get(voter, 0), term), candidate) != candidate:
            raise self.violation(Invariant.ONE_VOTE, f"voter {voter} votes twice in term {term}")

    def _check_candidacy(self, candidate: int, term: int) -> None:
        promises = len(self._promises.get((candidate, term), ())) + 1
        if promises < self._majority:
            raise self.violation(
                Invariant.PROMISED_CANDIDACY,
                f"voter {candidate} is a candidate in term {term} with {promises} pre-votes",
            )

    # --- state machines ----------------------------------------------------------------------------------------------

    def reported(self, index: int, payload: bytes, previous_hash: bytes) -> bytes:
        """Apply a payload; return the hash of the state, which must be equal on every voter."""
        state_hash = hashlib.sha256(previous_hash + index.to_bytes(8, "big") + payload).digest()
        self.record_state(index, state_hash)
        self._reported[index] = payload
        if self._payload_index.setdefault(payload, index) != index:
            raise self.violation(
                Invariant.PROPOSALS_ARE_KEPT,
                f"one payload is committed twice, at {self._payload_index[payload]} and {index}",
            )
        self._check_not_refused(payload, index)
        return state_hash

    def record_state(self, index: int, state_hash: bytes) -> None:
        """Record the state after this entry."""
        if self._state_hashes.setdefault(index, state_hash) != state_hash:
            raise self.violation(Invariant.STATE_MACHINES_AGREE, f"the state machines differ at entry {index}")

    def check_snapshot(self, index: int, term: int, state_hash: bytes) -> None:
        """Check a snapshot against the state after its last entry."""
        if self._state_hashes.get(index) != state_hash or self.committed[index][2] != term:
            raise self.violation(
                Invariant.STATE_MACHINES_AGREE,
                f"a snapshot at entry {index} differs from the state after that entry",
            )

    # --- what is committed -------------------------------------------------------------------------------------------

    def commit(self, voter: int, entry: Entry) -> None:
        _, index, term = entry
        known = self.committed.setdefault(index, entry)
        if known != entry:
            raise self.violation(
                Invariant.COMMITTED_STAYS,
                f"voter {voter} has another entry {index}, of term {term}, than the one committed in term {known[2]}",
            )
        if index > self.highest_committed:
            self.highest_committed = index
            holders = sum(disk.held(index, term) for disk in self.disks.values())
            if self.counts_disks and holders < self._majority:
                raise self.violation(
                    Invariant.COMMITTED_BY_A_MAJORITY,
                    f"entry {index} is committed, but on the disks of only {holders} voters",
                )

    def lead(self, voter: int, term: int, journal: QuorumJournal) -> None:
        if self.leaders.setdefault(term, voter) != voter:
            raise self.violation(
                Invariant.ONE_LEADER, f"voters {self.leaders[term]} and {voter} both lead in term {term}"
            )
        latest = self.committed.get(self.highest_committed)
        held = latest is None or latest[1] < journal.first_index or journal.term_at(latest[1]) == latest[2]
        if latest is not None and latest[2] < term and not held:
            raise self.violation(
                Invariant.LEADER_COMPLETENESS,
                f"voter {voter} leads in term {term} without entry {latest[1]}, which is committed",
            )

    def check_logs(self) -> None:
        """Log matching: if two logs have an entry of the same index and term, they are equal up to it."""
        # The first entry is the engine's own, or a base without its content.
        logs = [disk.journal[1:] for disk in self.disks.values() if disk.journal is not None]
        known: dict[tuple[int, int], bytes] = {}
        for log in logs:
            for command, index, term in log:
                # The base of a trimmed log has no content.
                if known.setdefault((index, term), command) != command:
                    raise self.violation(
                        Invariant.LOG_MATCHING, f"two logs have different entries {index} of term {term}"
                    )

    def check_end(self) -> None:
        """Check that every acknowledged proposal reached the state machines."""
        for payload, index in self._acknowledged.items():
            if self._reported.get(index) != payload:
                raise self.violation(Invariant.PROPOSALS_ARE_KEPT, f"entry {index} was acknowledged and is lost")
        for index, (command, _, term) in self.committed.items():
            decoded = decode(command)
            counts = decoded is not None and decoded.kind is CommandKind.PAYLOAD and decoded.decided_term == term
            if decoded is not None and counts and self._reported.get(index) != decoded.payload:
                raise self.violation(
                    Invariant.STATE_MACHINES_AGREE, f"no state machine got the committed entry {index}"
                )

    @property
    def payloads(self) -> list[bytes]:
        """All payloads that a state machine got, by index."""
        return [self._reported[index] for index in sorted(self._reported)]

    def fingerprint(self) -> str:
        """Return a hash of everything that was committed, voted for and acknowledged."""
        story = (self.committed, self.leaders, self._votes, self._acknowledged, sorted(self._refused))
        return hashlib.sha256(repr(story).encode()).hexdigest()[:16]

    def term(self, voter: int, term: int) -> None:
        if term < self._terms.get(voter, 0):
            raise self.violation(
                Invariant.NOTHING_GOES_BACK, f"voter {voter} goes back from term {self._terms[voter]} to {term}"
            )
        self._terms[voter] = term


class VoterWatch:
    """Checks one life of a voter."""

    def __init__(self, history: History, node_id: int) -> None:
        self._history = history
        self._node_id = node_id
        self._commit_index = FIRST_INDEX
        self._applied = FIRST_INDEX
        self._reported_index = 0
        self._state_hash = b""
        self._led_term = 0

    def check(self, engine: RaftEngine, journal: QuorumJournal) -> None:
        history, node_id = self._history, self._node_id
        disk = history.disks[node_id]
        disk.note(journal)
        if journal.synced:
            history.term(node_id, journal.getCurrentTerm())
            history.check_one_quorum(node_id)
        commit_index = int(engine.raftCommitIndex)
        if len(history.disks) == 1:
            # The engine counts a single voter's own copy as a majority before it is on disk; it is reported later.
            commit_index = max(self._commit_index, min(commit_index, journal.synced_index))
        self._check_commit(commit_index, journal)
        applied = int(engine.raftLastApplied)
        if applied < self._applied:
            raise self._history.violation(
                Invariant.NOTHING_GOES_BACK, f"voter {node_id} goes back from applied {self._applied} to {applied}"
            )
        self._applied = applied
        if engine.leading and self._led_term != engine.raftCurrentTerm:
            self._led_term = int(engine.raftCurrentTerm)
            history.lead(node_id, self._led_term, journal)

    def _check_commit(self, commit_index: int, journal: QuorumJournal) -> None:
        if commit_index < self._commit_index:
            raise self._history.violation(
                Invariant.NOTHING_GOES_BACK,
                f"voter {self._node_id} goes back from commit {self._commit_index} to {commit_index}",
            )
        first = journal.first_index
        # Of the entries in a snapshot, the journal keeps only the base, without its content.
        for index in {max(self._commit_index, first), first}:
            known = self._history.committed.get(index)
            if known is not None and journal.term_at(index) != known[2]:
                raise self._history.violation(
                    Invariant.COMMITTED_STAYS, f"voter {self._node_id} has lost entry {index}, which was committed"
                )
        if commit_index > self._commit_index:
            begin = max(self._commit_index, first) + 1
            for entry in journal[begin - first : commit_index + 1 - first]:
                self._history.commit(self._node_id, entry)
            self._commit_index = commit_index

    def reported(self, index: int, term: int, payload: bytes) -> None:
        journal = self._history.disks[self._node_id].journal
        if journal is None or journal.synced_index < index:
            raise self._history.violation(
                Invariant.REPORTED_IS_DURABLE, f"voter {self._node_id} reports entry {index}, which is not on its disk"
            )
        if index <= self._reported_index:
            raise self._history.violation(
                Invariant.NOTHING_GOES_BACK, f"voter {self._node_id} reports entry {index} after {self._reported_index}"
            )
        self._reported_index = index
        self._state_hash = self._history.reported(index, payload, self._state_hash)

    @property
    def state_hash(self) -> bytes:
        """The hash of the state machine after the last reported entry."""
        return self._state_hash

    def restored(self, index: int, term: int, state_hash: bytes) -> None:
        """Check a snapshot that replaces the state machine."""
        if index < self._reported_index:
            raise self._history.violation(
                Invariant.NOTHING_GOES_BACK, f"voter {self._node_id} goes back to a snapshot at entry {index}"
            )
        self._history.check_snapshot(index, term, state_hash)
        self._reported_index, self._state_hash = index, state_hash

    def installed(self) -> None:
        self._history.installed_count += 1

    def leadership(self, term: int | None) -> None:
        if term is None:
            return
        history = self._history
        if history.announced.setdefault(term, self._node_id) != self._node_id:
            raise self._history.violation(
                Invariant.ONE_LEADER,
                f"voters {history.announced[term]} and {self._node_id} were both announced as leader in term {term}",
            )
        behind = history.highest_acknowledged
        if self._reported_index < behind and history.committed[behind][2] < term:
            raise self._history.violation(
                Invariant.READS_ARE_CURRENT,
                f"voter {self._node_id} leads in term {term} and did not get entry {behind}",
            )

    def barrier(self, index: int, expected: int) -> None:
        """Check a barrier; `expected` was acknowledged before the barrier was requested."""
        if self._reported_index < expected or index < expected:
            raise self._history.violation(
                Invariant.READS_ARE_CURRENT, f"a barrier on voter {self._node_id} passed without entry {expected}"
            )
