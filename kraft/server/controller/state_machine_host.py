"""The one writer over the replicated metadata log: decide, append, commit, replay, answer.

Commands are decided one after the other on the image that all earlier decisions lead to. The decisions of several
waiting commands share one entry; each command is answered, also with a refusal, after the entry is committed and
replayed here. So the image holds only committed records, and no response shows anything else.

A decision may take many entries: a transaction, of which nothing counts before its end. Between its entries the event
loop is free. A controller that becomes active first aborts the unfinished transaction of its predecessor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

import structlog

from kraft.metadata.change_counts import is_unclean
from kraft.metadata.decision import Decide, Decision, RecordsOnDemand
from kraft.metadata.features import METADATA_VERSION, SETTINGS_AS_METADATA, check_levels, level_of
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import MetadataRecord, PartitionChanged, RegisterBroker
from kraft.metadata.replayed_image import ReplayedImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.quorum.port import NotLeader, PayloadTooLarge, ProposalUnknown, Quorum
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.server.cluster.metadata_snapshots import LoadedImage
from kraft.server.controller.committed_entries import CommittedEntries, CommittedEntry
from kraft.server.controller.decided_entries import ABORTED, ENTRY_BYTES_MAX, transaction

log = structlog.get_logger()

Response = TypeVar("Response")

SHARED_RECORDS_MAX: Final = 500
"""A command with more records gets entries of its own, and its records are computed while these are committed."""

COMMIT_TIMEOUT_S: Final = 5.0
ABORT_RETRY_S: Final = 0.05


@dataclass(slots=True)
class _PendingCommand:
    decide: Decide[Any]
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _ProposedEntry:
    """One entry to propose, with the response or refusal of each of its commands, given once it is committed."""

    payload: bytes = b""
    answers: list[tuple[asyncio.Future[Any], Any | Refusal]] = field(default_factory=list)

    @property
    def waiting(self) -> list[asyncio.Future[Any]]:
        return [answer for answer, _ in self.answers]

    def give_answers(self) -> None:
        for answer, response in self.answers:
            if isinstance(response, Refusal):
                _refuse([answer], response)
            elif not answer.done():
                answer.set_result(response)


class StateMachineHost:
    """Holds the committed image. The quorum delivers entries; while this node leads, commands are decided here."""

    def __init__(self, on_leadership: Callable[[bool], None]) -> None:
        self.entries = CommittedEntries()
        """The latest committed entries, for the brokers that follow the metadata."""
        self.committed_index = 0
        """Index of the last entry in the image; entries of a transaction count once it has ended."""
        self.entry_bytes_total = 0
        """Bytes of the entries replayed in this process."""
        self.unclean_elections = 0
        """Elections of leaders that may lack committed records, while this controller was active."""
        self.registration_index: dict[BrokerId, int] = {}
        """Upper bound of the index of each broker's latest registration."""
        self._replayed = ReplayedImage()
        self._quorum: Quorum | None = None
        self._announce_leadership = on_leadership
        self._term: int | None = None
        self._committed_term = 0
        self._loaded_index = 0
        self._commands: asyncio.Queue[_PendingCommand] = asyncio.Queue()
        self._progress = asyncio.Event()
        # Set when a proposal's outcome is unknown: nothing is decided before all earlier entries are replayed.
        self._must_catch_up = False

    @property
    def image(self) -> MetadataImage:
        """The committed metadata, without unfinished transactions."""
        return self._replayed.image

    # --- the quorum's side ---

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def start_from(self, loaded: LoadedImage) -> None:
        """Replace the image by a snapshot. Entries that it contains are ignored if they are delivered again."""
        assert loaded.index >= self.committed_index, f"entry {loaded.index} lies behind {self.committed_index}"
        check_levels(loaded.image)
        self._replayed = ReplayedImage(image=loaded.image)
        self._loaded_index = self.committed_index = loaded.index
        self._committed_term = loaded.term
        self.entries.begin_after(loaded.index)
        # The snapshot does not say at which index they registered, only that it was not after the snapshot's end.
        self.registration_index = dict.fromkeys(loaded.image.brokers, loaded.index)
        self._progress.set()

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        if index <= self._loaded_index:
            return
        records = decode_records(payload, index)
        replayed = self._replayed.replay(records)
        if replayed.image.features is not self.image.features:
            check_levels(replayed.image)
        before, self._replayed = self._replayed.image, replayed
        for record in records:
            if isinstance(record, RegisterBroker):
                self.registration_index[record.broker_id] = index
            elif isinstance(record, PartitionChanged) and self.active:
                state = before.partition_by_id(record.topic_id, record.partition)
                self.unclean_elections += state is not None and is_unclean(state, record.leader)
        self.entries.append(CommittedEntry(index=index, term=term, payload=payload))
        if not replayed.in_transaction:
            self.committed_index, self._committed_term = index, term
        self.entry_bytes_total += len(payload)
        self._progress.set()

    def on_leadership(self, term: int | None) -> None:
        self._term = term
        self._must_catch_up = False
        self._announce_leadership(term is not None)
        if term is not None and self._replayed.in_transaction:
            self._wake()

    # --- the node's side ---

    @property
    def active(self) -> bool:
        """True while this node believes that it is the active controller."""
        return self._term is not None

    def current_image(self) -> LoadedImage:
        return LoadedImage(image=self.image, index=self.committed_index, term=self._committed_term)

    async def progress(self, timeout_s: float) -> None:
        """Wait until another entry is committed, at most `timeout_s`."""
        self._progress.clear()
        # `asyncio.wait_for` may lose a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._progress.wait()

    def check_active(self) -> None:
        if not self.active:
            leader = None if self._quorum is None else self._quorum.leader_id
            known = f"controller {leader} is" if leader is not None else "none is known"
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"this is not the active controller: {known}")

    async def submit(self, decide: Decide[Response]) -> Response:
        """Decide on the current image, and return the response when the decision is committed.

        Raises the decision's Refusal, or NOT_CONTROLLER if this node does not lead, or no longer; then the outcome may
        be unknown, and the caller should retry.
        """
        self.check_active()
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._commands.put_nowait(_PendingCommand(decide, answer))
        return await answer

    async def run(self) -> None:
        """Decide and commit the commands. Runs until cancelled."""
        while True:
            commands = [await self._commands.get()]
            while not self._commands.empty():
                commands.append(self._commands.get_nowait())
            try:
                await self._carry_out(commands)
            finally:
                # Commands without a response were decided on top of an entry that was not committed.
                _refuse([command.answer for command in commands], _lost_leadership())
            if self.active and self._replayed.in_transaction:
                # Not all entries of the transaction were committed: abort it before anything else is decided.
                await asyncio.sleep(ABORT_RETRY_S)
                self._wake()

    def _wake(self) -> None:
        """Wake the writer with an empty command that has no caller."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.cancel()
        self._commands.put_nowait(_PendingCommand(lambda image: Decision(records=[], response=None), answer))

    async def _carry_out(self, commands: Sequence[_PendingCommand]) -> None:
        """Decide the commands, each on top of those before it. Returns early if an entry is not committed."""
        term = self._term
        if term is None or not await self._caught_up(term):
            return
        image, entry = self.image, _ProposedEntry()
        for command in commands:
            if command.answer.done():
                continue
            try:
                decision = command.decide(image)
            except Refusal as refusal:
                # The refusal may depend on a decision in this entry, so it waits for the commit.
                entry.answers.append((command.answer, refusal))
                continue
            records = list(islice(decision.records, SHARED_RECORDS_MAX + 1))
            payload = encode_records(records) if len(records) <= SHARED_RECORDS_MAX else None
            if self._takes_several_entries(records, payload):
                if not await self._commit(entry, term) or not await self._commit_all(decision, command.answer, term):
                    return
                image, entry = self.image, _ProposedEntry()
                continue
            payload = encode_records(decision.records) if payload is None else payload
            if entry.payload and len(entry.payload) + len(payload) > ENTRY_BYTES_MAX:
                if not await self._commit(entry, term):
                    return
                entry = _ProposedEntry()
            image = image.replay(decision.records)
            # Encoded lists of records can be concatenated: protobuf merges repeated fields.
            entry.payload += payload
            entry.answers.append((command.answer, decision.response))
        await self._commit(entry, term)

    def _takes_several_entries(self, records: Sequence[MetadataRecord], payload: bytes | None) -> bool:
        if level_of(self.image, METADATA_VERSION) < SETTINGS_AS_METADATA:
            # Some nodes may not know the transaction markers, so one entry must hold everything.
            return False
        return payload is None or (len(payload) > ENTRY_BYTES_MAX and len(records) > 1)

    async def _caught_up(self, term: int) -> bool:
        assert self._quorum is not None
        if self._must_catch_up:
            try:
                await self._quorum.barrier(COMMIT_TIMEOUT_S)
            except (NotLeader, ProposalUnknown):
                return False
            self._must_catch_up = False
        if not self._replayed.in_transaction:
            return True
        is_aborted = await self._commit(_ProposedEntry(ABORTED, []), term)
        if is_aborted:
            log.info("unfinished metadata transaction aborted", term=term)
        return is_aborted

    async def _commit_all(self, decision: Decision[Any], answer: asyncio.Future[Any], term: int) -> bool:
        """Commit a decision that takes several entries, and answer when the last of them is committed."""
        records = decision.records
        payloads = transaction(records.consumed() if isinstance(records, RecordsOnDemand) else records)
        payload = next(payloads)
        for following in payloads:
            if not await self._commit(_ProposedEntry(payload, []), term):
                return False
            payload = following
            # A quorum of one commits without waiting; this gives other tasks their turn.
            await asyncio.sleep(0)
        return await self._commit(_ProposedEntry(payload, [(answer, decision.response)]), term)

    async def _commit(self, entry: _ProposedEntry, term: int) -> bool:
        assert self._quorum is not None
        if not entry.payload and not entry.answers:
            return True
        try:
            if entry.payload:
                await self._quorum.propose(entry.payload, term, COMMIT_TIMEOUT_S)
            else:
                # Nothing changes, but a controller that has lost its leadership without noticing must not answer.
                await self._quorum.barrier(COMMIT_TIMEOUT_S)
        except PayloadTooLarge as error:
            _refuse(entry.waiting, Refusal(ErrorCode.INVALID_REQUEST, f"{error}: split the request"))
            # Later entries would be decided on top of this one.
            return False
        except (NotLeader, ProposalUnknown) as error:
            log.warning("metadata commit failed", term=term, reason=str(error))
            self._must_catch_up = True
            _refuse(entry.waiting, _lost_leadership())
            return False
        entry.give_answers()
        return True


def _lost_leadership() -> Refusal:
    return Refusal(ErrorCode.NOT_CONTROLLER, "this node is no longer the active controller: retry")


def _refuse(answers: Sequence[asyncio.Future[Any]], refusal: Refusal) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(refusal)
