"""One writer over a replicated log: decide, append, commit, replay, answer.

Commands are decided one after the other against the image that all earlier ones led to. What several waiting commands
decided leaves as one entry; each is answered after the entry is committed and replayed here, also with a refusal. So
no image ever holds what is not committed, and no answer tells of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from kraft.metadata.decision import Decision
from kraft.metadata.features import check_levels
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import MetadataRecord, RegisterBroker
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.quorum.port import NotLeader, PayloadTooLarge, ProposalUnknown, Quorum
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.server.committed_entries import CommittedEntries, CommittedEntry
from kraft.server.metadata_snapshots import LoadedImage

log = structlog.get_logger()

Response = TypeVar("Response")
Decide = Callable[[MetadataImage], Decision[Any]]

ENTRY_BYTES_MAX: Final = 32 * 1024
"""Waiting commands share an entry up to this size; a single command's records may make a larger one."""

COMMIT_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class _Command:
    decide: Decide
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _Entry:
    """What is to be proposed as one entry, and whom to answer with what, or to refuse, once it is committed."""

    payload: bytes
    answers: list[tuple[asyncio.Future[Any], Any | Refusal]]

    def give_answers(self) -> None:
        for answer, response in self.answers:
            if isinstance(response, Refusal):
                _refuse([answer], response)
            elif not answer.done():
                answer.set_result(response)


class StateMachineHost:
    """Holds the committed image; the quorum drives it, and while this node leads, commands change it."""

    def __init__(self, on_leadership: Callable[[bool], None]) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.entries = CommittedEntries()
        """The latest committed entries, for the brokers that follow."""
        self.committed_index = 0
        """The entry up to which everything is in the image."""
        self.entry_bytes_total = 0
        """Bytes of the entries that were replayed in this process."""
        self.registration_index: dict[BrokerId, int] = {}
        """Where in the log each broker's latest registration stands, or further on."""
        self._quorum: Quorum | None = None
        self._announce_leadership = on_leadership
        self._term: int | None = None
        self._committed_term = 0
        self._loaded_index = 0
        self._commands: asyncio.Queue[_Command] = asyncio.Queue()
        self._progress = asyncio.Event()
        # Set when a proposal's outcome is unknown: nothing is decided before all that came earlier is known.
        self._must_catch_up = False

    # --- the quorum's side ---

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def start_from(self, loaded: LoadedImage) -> None:
        """Replaces everything by a snapshot. Entries that it contains may be given again; they change nothing."""
        assert loaded.index >= self.committed_index, f"entry {loaded.index} lies behind {self.committed_index}"
        check_levels(loaded.image)
        self.image = loaded.image
        self._loaded_index = self.committed_index = loaded.index
        self._committed_term = loaded.term
        self.entries.begin_after(loaded.index)
        # The snapshot does not say where in the log they registered; it was not behind its own end.
        self.registration_index = dict.fromkeys(loaded.image.brokers, loaded.index)
        self._progress.set()

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        if index <= self._loaded_index:
            return
        records = decode_records(payload, index)
        image = self.image.replay(records)
        if image.features is not self.image.features:
            check_levels(image)
        self.image = image
        for record in records:
            if isinstance(record, RegisterBroker):
                self.registration_index[record.broker_id] = index
        self.entries.append(CommittedEntry(index=index, term=term, payload=payload))
        self.committed_index, self._committed_term = index, term
        self.entry_bytes_total += len(payload)
        self._progress.set()

    def on_leadership(self, term: int | None) -> None:
        self._term = term
        self._must_catch_up = False
        self._announce_leadership(term is not None)

    # --- the node's side ---

    @property
    def active(self) -> bool:
        """True while this node is the active controller, as far as it knows."""
        return self._term is not None

    def current_image(self) -> LoadedImage:
        return LoadedImage(image=self.image, index=self.committed_index, term=self._committed_term)

    async def progress(self, timeout_s: float) -> None:
        """Returns when another entry was committed, or after `timeout_s`."""
        self._progress.clear()
        try:
            await asyncio.wait_for(self._progress.wait(), timeout_s)
        except TimeoutError:
            return

    def check_active(self) -> None:
        if not self.active:
            leader = None if self._quorum is None else self._quorum.leader_id
            known = f"controller {leader} is" if leader is not None else "no other is known"
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"this is not the active controller; {known}")

    async def submit(self, decide: Callable[[MetadataImage], Decision[Response]]) -> Response:
        """Decides on the current image; the answer comes when the decision is committed.

        Raises whatever Refusal the decision raised, and NOT_CONTROLLER when this node does not or no longer lead;
        then the outcome may be unknown, and the caller asks again.
        """
        self.check_active()
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._commands.put_nowait(_Command(decide, answer))
        return await answer

    async def run(self) -> None:
        """The one writer. Runs until cancelled."""
        while True:
            commands = [await self._commands.get()]
            while not self._commands.empty():
                commands.append(self._commands.get_nowait())
            try:
                await self._carry_out(commands)
            finally:
                # What is unanswered by now was decided on top of something that did not commit.
                _refuse([command.answer for command in commands], _lost_leadership())

    async def _carry_out(self, commands: Sequence[_Command]) -> None:
        term = self._term
        if term is None or not await self._caught_up():
            return
        for entry in self._decide(commands):
            if not await self._commit(entry, term):
                return

    async def _caught_up(self) -> bool:
        assert self._quorum is not None
        if self._must_catch_up:
            try:
                await self._quorum.barrier(COMMIT_TIMEOUT_S)
            except (NotLeader, ProposalUnknown):
                return False
            self._must_catch_up = False
        return True

    def _decide(self, commands: Sequence[_Command]) -> list[_Entry]:
        """The entries that the commands lead to. Each command sees what those before it decided."""
        entries: list[_Entry] = []
        image = self.image
        records: list[MetadataRecord] = []
        answers: list[tuple[asyncio.Future[Any], Any | Refusal]] = []
        size = 0
        for command in commands:
            if command.answer.done():
                continue
            try:
                decision = command.decide(image)
            except Refusal as refusal:
                # It may rest on a decision in this very entry.
                answers.append((command.answer, refusal))
                continue
            image = image.replay(decision.records)
            decided_bytes = len(encode_records(decision.records))
            if records and size + decided_bytes > ENTRY_BYTES_MAX:
                entries.append(_Entry(encode_records(records), answers))
                records, answers, size = [], [], 0
            records.extend(decision.records)
            answers.append((command.answer, decision.response))
            size += decided_bytes
        if answers:
            entries.append(_Entry(encode_records(records), answers))
        return entries

    async def _commit(self, entry: _Entry, term: int) -> bool:
        assert self._quorum is not None
        waiting = [answer for answer, _ in entry.answers]
        try:
            if entry.payload:
                await self._quorum.propose(entry.payload, term, COMMIT_TIMEOUT_S)
            else:
                # Nothing changes, but a controller that was cut off and does not know it yet must not answer either.
                await self._quorum.barrier(COMMIT_TIMEOUT_S)
        except PayloadTooLarge as error:
            _refuse(waiting, Refusal(ErrorCode.INVALID_REQUEST, f"{error}: ask for less at a time"))
            # Later entries were decided on top of this one.
            return False
        except (NotLeader, ProposalUnknown) as error:
            log.warning("metadata was not committed", term=term, reason=str(error))
            self._must_catch_up = True
            _refuse(waiting, _lost_leadership())
            return False
        entry.give_answers()
        return True


def _lost_leadership() -> Refusal:
    return Refusal(ErrorCode.NOT_CONTROLLER, "this node lost the lead of the quorum; ask again")


def _refuse(answers: Sequence[asyncio.Future[Any]], refusal: Refusal) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(refusal)
