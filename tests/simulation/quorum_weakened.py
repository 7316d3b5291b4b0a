"""The quorum with one guard removed at a time, to show that each guard is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kraft.log.disk import File
from kraft.quorum import engine, filters, journal_format, journal_segments, messages, raft_quorum, transport
from kraft.quorum.admission import Learners
from kraft.quorum.apply_queue import ApplyQueue
from kraft.quorum.candidacy import LeaderWatch, PreVotes
from kraft.quorum.command import CommandKind, EntryCommand
from kraft.quorum.engine_facts import EngineFacts
from kraft.quorum.filters import Acknowledgements, LogView, TrimmedAppendEntries, VoteCounter
from kraft.quorum.journal import Entry, QuorumJournal
from kraft.quorum.journal_format import Scan
from kraft.quorum.journal_segments import Segments
from kraft.quorum.membership import INCARNATION_BYTES, Membership
from kraft.quorum.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotPart,
)
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.standing import Standing
from kraft.quorum.transport import QuorumTransport
from tests.support.disks.sim_disk import SimFile

Guard = Callable[[], AbstractContextManager[object]]


def truncating_behind_every_append() -> AbstractContextManager[object]:
    """A follower truncates entries that it already has, as the engine does. Bug 1."""

    def leave_all_entries(append: AppendEntries, log: LogView, last_applied: int) -> TrimmedAppendEntries:
        trimmed = filters.trim_append(append, log, last_applied)
        return TrimmedAppendEntries(
            append=replace(append, commit_index=trimmed.commit_index),
            commit_index=trimmed.commit_index,
            held_index=None,
        )

    return patch.object(transport, "trim_append", leave_all_entries)


def believing_unproved_commits() -> AbstractContextManager[object]:
    """A follower commits all its entries up to the leader's commit index, even those of another leader."""

    def leave_the_commit_index(append: AppendEntries, log: LogView, last_applied: int) -> TrimmedAppendEntries:
        trimmed = filters.trim_append(append, log, last_applied)
        return TrimmedAppendEntries(
            append=replace(trimmed.append, commit_index=append.commit_index),
            commit_index=append.commit_index,
            held_index=trimmed.held_index,
        )

    return patch.object(transport, "trim_append", leave_the_commit_index)


def counting_late_acknowledgements() -> AbstractContextManager[object]:
    """An answer to an earlier leadership counts for the current one. Bug 2."""
    admit = Acknowledgements.admit

    def admit_any_term(
        self: Acknowledgements, voter: int, response: AppendEntriesResponse, last_index: int, now_ms: int
    ) -> AppendEntriesResponse | None:
        return admit(self, voter, replace(response, term=self._term), last_index, now_ms)

    return patch.object(Acknowledgements, "admit", admit_any_term)


def counting_votes_twice() -> AbstractContextManager[object]:
    """Every vote counts, also a second one of the same voter. Bug 2."""
    return patch.object(VoteCounter, "admit", lambda self, voter, vote_term, current_term: vote_term == current_term)


def never_syncing() -> AbstractContextManager[object]:
    """New journal entries stay in the page cache. Bug 3."""
    append = Segments.append

    def append_without_sync(self: Segments, body: bytes) -> None:
        with patch.object(SimFile, "sync", lambda self: None):
            append(self, body)

    return patch.object(Segments, "append", append_without_sync)


@contextmanager
def speaking_before_the_sync() -> Iterator[None]:
    """Messages are sent before what they promise is on disk. Bug 3."""
    hold = QuorumTransport.hold

    def hold_nothing(self: QuorumTransport) -> None:
        hold(self)
        self.release()

    with (
        patch.object(QuorumTransport, "hold", hold_nothing),
        patch.object(QuorumTransport, "_is_still_valid", lambda self, message: True),
    ):
        yield


def acknowledging_what_was_cut_off() -> AbstractContextManager[object]:
    """Held messages are sent even if their entries were truncated meanwhile."""
    return patch.object(QuorumTransport, "_is_still_valid", lambda self, message: True)


@contextmanager
def releasing_with_the_write_before() -> Iterator[None]:
    """Messages that arise during a write are sent once that write is durable."""
    release = QuorumTransport.release

    def release_everything(self: QuorumTransport) -> None:
        self.hold()
        release(self)

    with patch.object(QuorumTransport, "release", release_everything), acknowledging_what_was_cut_off():
        yield


def believing_unsynced_journals() -> AbstractContextManager[object]:
    """Entries that a start finds count as durable."""

    def cut_without_sync(file: File, data: bytes, found: Scan) -> None:
        if found.valid_bytes < file.size:
            file.truncate(found.valid_bytes)

    return patch.object(journal_segments, "settle", cut_without_sync)


def leaving_torn_tails() -> AbstractContextManager[object]:
    """A torn frame stays, and the next one is written after it. Bug 5."""
    return patch.object(journal_segments, "settle", lambda file, data, found: file.sync())


def believing_every_byte() -> AbstractContextManager[object]:
    """Checksums are not compared. Bug 5."""

    def crc_of_anything(position: int, body: bytes | memoryview) -> int:
        return 0

    return patch.object(journal_format, "_frame_crc", crc_of_anything)


def forgetting_votes() -> AbstractContextManager[object]:
    """Term and vote are only in memory."""

    def remember(self: QuorumJournal, term: int, votedForNodeId: int | None) -> None:
        self._term = term
        self._voted_for = journal_format.NO_VOTE if votedForNodeId is None else votedForNodeId

    return patch.object(QuorumJournal, "setCurrentTerm", remember)


def forgetting_whom_it_voted_for() -> AbstractContextManager[object]:
    """The term is written, but the vote is only in memory."""
    remember = QuorumJournal.setCurrentTerm

    def remember_the_term(self: QuorumJournal, term: int, votedForNodeId: int | None) -> None:
        remember(self, term, None)
        self._voted_for = journal_format.NO_VOTE if votedForNodeId is None else votedForNodeId

    return patch.object(QuorumJournal, "setCurrentTerm", remember_the_term)


class _CommitsEarlierTerms(engine.RaftEngine):
    """Counts copies also of an entry of an earlier term: figure 8 of the Raft paper."""

    _for_the_previous = False

    def _SyncObj__getEntries(
        self, fromIDx: int | None, count: int | None = None, maxSizeBytes: int | None = None
    ) -> list[Entry]:
        entries: list[Entry] = super()._SyncObj__getEntries(fromIDx, count, maxSizeBytes)
        if count == 1 and not self._for_the_previous:
            return [(data, index, int(self.raftCurrentTerm)) for data, index, _ in entries]
        return entries

    def _SyncObj__getPrevLogIndexTerm(self, nextNodeIndex: int) -> Any:
        self._for_the_previous = True
        try:
            return super()._SyncObj__getPrevLogIndexTerm(nextNodeIndex)
        finally:
            self._for_the_previous = False

    def _SyncObj__applyLogEntries(self) -> Any:
        self._for_the_previous = True
        try:
            return super()._SyncObj__applyLogEntries()
        finally:
            self._for_the_previous = False


def committing_earlier_terms() -> AbstractContextManager[object]:
    return patch.object(raft_quorum, "RaftEngine", _CommitsEarlierTerms)


def counting_own_unsynced_entries() -> AbstractContextManager[object]:
    """A voter's own entries count as stored as soon as they are added, as in the engine."""
    return patch.object(ApplyQueue, "add", lambda self, *entry: self._apply(*entry))


def telling_with_the_write_before() -> AbstractContextManager[object]:
    """All committed entries are reported as soon as any write is durable."""
    release = RaftQuorum._release

    def apply_all_and_release(self: RaftQuorum, parts: Any) -> None:
        self._committed.apply_up_to(lambda: sys.maxsize)
        release(self, parts)

    return patch.object(RaftQuorum, "_release", apply_all_and_release)


def applying_what_another_term_stored() -> AbstractContextManager[object]:
    """A payload is applied even if a later term than the one it was decided in stores it."""
    apply = RaftQuorum._apply

    def apply_unfenced(self: RaftQuorum, index: int, term: int, entry: EntryCommand) -> None:
        if entry.kind is CommandKind.PAYLOAD:
            entry = replace(entry, decided_term=term)
        apply(self, index, term, entry)

    return patch.object(RaftQuorum, "_apply", apply_unfenced)


def leading_without_barrier() -> AbstractContextManager[object]:
    """Leadership is announced as soon as the engine has it, before the commit index is known."""

    def announce_at_once(self: RaftQuorum, leads: bool) -> None:
        if leads:
            assert self._parts is not None
            self._parts.transport.leadership_begins(self.term)
            self._announce_leadership(self.term)
        else:
            self._withdraw_leadership("leadership was lost")

    return patch.object(RaftQuorum, "_on_leading", announce_at_once)


def reading_without_quorum() -> AbstractContextManager[object]:
    """A voter that considers itself leader answers a barrier by itself."""

    async def answer_at_once(self: RaftQuorum, deadline_s: float) -> int:
        return self.last_applied

    return patch.object(RaftQuorum, "barrier", answer_at_once)


def resending_at_every_refusal() -> AbstractContextManager[object]:
    """Each append that a follower refuses because of one gap makes the leader send all that follows again."""
    return patch.object(Acknowledgements, "_may_resend", lambda *_: True)


def standing_without_asking() -> AbstractContextManager[object]:
    """A voter without a leader becomes a candidate without pre-votes, as in the engine."""
    return patch.object(
        QuorumTransport, "may_campaign", lambda self, round_ms: bool(self._connected or not self._nodes)
    )


def leaving_a_leader_for_any_candidate() -> AbstractContextManager[object]:
    """A vote request of a later term is answered even while there is a leader."""
    return patch.object(QuorumTransport, "_has_leader_besides", lambda *_: False)


def promising_votes_right_after_a_start() -> AbstractContextManager[object]:
    """A voter that has just started assumes that there is no leader."""

    class KnowsNobody(LeaderWatch):
        def __init__(self, timeout_ms: int, started_at_ms: int | None) -> None:
            super().__init__(timeout_ms, None)

    return patch.object(transport, "LeaderWatch", KnowsNobody)


def leading_without_answers() -> AbstractContextManager[object]:
    """A leader without answers leads until it receives a later term."""
    settings = engine._engine_settings

    def without_fallback(*arguments: Any) -> Any:
        chosen = settings(*arguments)
        chosen.leaderFallbackTimeout = 1e9
        return chosen

    return patch.object(engine, "_engine_settings", without_fallback)


def leaving_leaders_of_earlier_terms_unanswered() -> AbstractContextManager[object]:
    """A voter in a later term than the leader drops its messages without an answer."""
    receive = QuorumTransport._receive_append

    def drop_unanswered(self: QuorumTransport, engine: EngineFacts, peer: int, append: AppendEntries) -> None:
        if append.term >= engine.raftCurrentTerm:
            receive(self, engine, peer, append)

    return patch.object(QuorumTransport, "_receive_append", drop_unanswered)


def installing_snapshots_beside_an_unwritten_term() -> AbstractContextManager[object]:
    """A snapshot becomes durable before the term in which its leader sent it."""

    install = RaftQuorum._install_snapshot

    def install_at_once(self: RaftQuorum, sender: int, term: int, snapshot: Snapshot) -> None:
        install(self, sender, term, snapshot)
        if self._incoming is not None and not self._incoming.is_under_way:
            self._keep_snapshot(self._incoming)

    return patch.object(RaftQuorum, "_install_snapshot", install_at_once)


def installing_snapshots_with_the_write_before() -> AbstractContextManager[object]:
    """A snapshot that arrives during a write is begun after that write, before the next one."""
    release = RaftQuorum._release

    def release_and_keep(self: RaftQuorum, parts: Any) -> None:
        release(self, parts)
        if self._incoming is not None and not self._incoming.is_under_way:
            self._keep_snapshot(self._incoming)

    return patch.object(RaftQuorum, "_release", release_and_keep)


def installing_snapshots_of_the_past() -> AbstractContextManager[object]:
    """A voter receives every snapshot, even one of entries that it has applied."""
    receive = QuorumTransport._receive_part

    def receive_as_if_nothing_was_applied(
        self: QuorumTransport, engine: EngineFacts, peer: int, part: SnapshotPart
    ) -> None:
        receive(self, _NothingApplied(engine), peer, part)

    return patch.object(QuorumTransport, "_receive_part", receive_as_if_nothing_was_applied)


def taking_over_snapshots_of_the_past() -> AbstractContextManager[object]:
    """A written snapshot is installed, even if later entries were applied meanwhile."""

    def restore_always(self: RaftQuorum, snapshot: Snapshot, restore: Callable[[], None]) -> None:
        assert self._parts is not None
        self._committed.clear()
        restore()

    return patch.object(RaftQuorum, "_restore", restore_always)


class _NothingApplied:
    raftLastApplied = 0  # noqa: N815  The engine's name.

    def __init__(self, engine: EngineFacts) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def sending_without_end() -> AbstractContextManager[object]:
    """A voter that lags is sent all missing entries, however many bytes wait already."""
    return patch.object(QuorumTransport, "_room_bytes", lambda self, peer: 1 << 60)


def voting_at_once() -> AbstractContextManager[object]:
    """A voter that lost its directory votes as if it had never voted."""
    return patch.object(Membership, "may_vote_in", lambda self, term: not self.is_new)


def counting_learners() -> AbstractContextManager[object]:
    """What a learner acknowledges counts for commits."""

    def as_a_voter(message: Any, term: int, sender: Membership) -> Any:
        translated = messages.from_engine(message, term, sender)
        return replace(translated, is_learner=False) if isinstance(translated, AppendEntriesResponse) else translated

    return patch.object(transport, "from_engine", as_a_voter)


def admitting_without_a_barrier() -> AbstractContextManager[object]:
    """A learner is admitted as soon as it holds what is committed."""

    def holds_what_is_committed(self: Learners, learner: int, commit_index: int) -> bool:
        return self._acknowledgements.match_index(learner) >= commit_index

    return patch.object(Learners, "may_vote", holds_what_is_committed)


def voting_in_the_term_of_the_admission() -> AbstractContextManager[object]:
    """A voter that was admitted votes in that term, too: it may have voted in it before."""
    return patch.object(Membership, "admitted", lambda self, term: replace(self, admitted_after=term - 1))


def remembering_the_place_of_another_incarnation() -> AbstractContextManager[object]:
    """A voter that comes back empty is sent nothing before what it once confirmed. The oldest behaviour."""
    return patch.object(Acknowledgements, "forget", lambda self, voter: None)


def trusting_a_voter_that_comes_back_behind() -> AbstractContextManager[object]:
    """A voter without entries that it confirmed goes on voting."""
    return patch.object(Learners, "_lacks_what_it_confirmed", lambda *_: False)


@contextmanager
def forming_by_a_majority() -> Iterator[None]:
    """A majority of voters that belong to no quorum forms one; the incarnations of the others are not known."""
    is_won, accepts = PreVotes.is_won, Standing.accepts

    def of_a_majority(self: Standing) -> Any:
        unknown = dict.fromkeys(self._voters, bytes(INCARNATION_BYTES))
        known = {self._node_id: self.membership.incarnation} | {
            peer: greeting.incarnation for peer, greeting in self._greetings.items() if not greeting.founders
        }
        return unknown | known if len(known) > len(self._voters) // 2 else None

    def grants_any(self: Standing, peer: int, message: Message) -> bool:
        if isinstance(message, PreVoteRequest) and message.forms:
            return self.membership.is_new
        if isinstance(message, PreVoteResponse):
            return True
        return accepts(self, peer, message)

    def by_a_majority(self: PreVotes, term: int, *, needs_all: bool) -> bool:
        return is_won(self, term, needs_all=False)

    with (
        patch.object(Standing, "proposed_founders", property(of_a_majority)),
        patch.object(Standing, "accepts", grants_any),
        patch.object(PreVotes, "is_won", by_a_majority),
    ):
        yield


@contextmanager
def nothing_weakened() -> Iterator[None]:
    yield
