"""Frames of the streams between voters: messages as protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from kraft.quorum import command
from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.quorum.journal import FIRST_INDEX, Entry
from kraft.quorum.membership import INCARNATION_BYTES
from kraft.quorum.messages import (
    Admission,
    Append,
    AppendResponse,
    BadMessage,
    Demotion,
    Introduction,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
)
from kraft.quorum.pb import raft_pb2

_BATCH_BYTES_TARGET = FRAME_BYTES_MAX // 2
"""A batch ends before the message that would exceed this. A single message stays below the other half."""


def to_frames(messages: Iterable[Message]) -> list[raft_pb2.RaftFrame]:
    """Pack the messages, in order, into as few frames as the maximum size allows; without any, one empty frame."""
    frames = [raft_pb2.RaftFrame(batch=raft_pb2.RaftBatch())]
    batch_bytes = 0
    for message in messages:
        encoded = _to_proto(message)
        encoded_bytes = encoded.ByteSize()
        if batch_bytes > 0 and batch_bytes + encoded_bytes > _BATCH_BYTES_TARGET:
            frames.append(raft_pb2.RaftFrame())
            batch_bytes = 0
        frames[-1].batch.messages.append(encoded)
        batch_bytes += encoded_bytes
    return frames


def from_frame(frame: raft_pb2.RaftFrame) -> list[Message]:
    """Return the messages of a frame. Raises BadMessage for anything but a batch of valid messages."""
    if frame.WhichOneof("content") != "batch":
        raise BadMessage("the frame is not a batch")
    return [_from_proto(message) for message in frame.batch.messages]


def founders_to_proto(founders: Mapping[int, bytes]) -> list[raft_pb2.RaftFounder]:
    return [raft_pb2.RaftFounder(voter_id=voter, incarnation=founders[voter]) for voter in sorted(founders)]


def founders_from_proto(founders: Iterable[raft_pb2.RaftFounder]) -> dict[int, bytes]:
    """Return the founders by voter. Raises BadMessage."""
    by_voter = {founder.voter_id: founder.incarnation for founder in founders}
    if any(len(incarnation) != INCARNATION_BYTES for incarnation in by_voter.values()):
        raise BadMessage("a founder's incarnation has another length")
    return by_voter


def _to_proto(message: Message) -> raft_pb2.RaftMessage:
    match message:
        case Append():
            return raft_pb2.RaftMessage(append=_append_to_proto(message))
        case AppendResponse():
            return raft_pb2.RaftMessage(append_response=raft_pb2.RaftAppendResponse(**_fields(message)))
        case VoteRequest():
            return raft_pb2.RaftMessage(vote_request=raft_pb2.RaftVoteRequest(**_fields(message)))
        case VoteResponse():
            return raft_pb2.RaftMessage(vote_response=raft_pb2.RaftVoteResponse(term=message.term))
        case PreVoteRequest():
            return raft_pb2.RaftMessage(pre_vote_request=raft_pb2.RaftPreVoteRequest(**_fields(message)))
        case PreVoteResponse():
            return raft_pb2.RaftMessage(pre_vote_response=raft_pb2.RaftPreVoteResponse(**_fields(message)))
        case SnapshotPart():
            return raft_pb2.RaftMessage(snapshot_part=raft_pb2.RaftSnapshotPart(**_fields(message)))
        case Introduction():
            return raft_pb2.RaftMessage(introduction=raft_pb2.RaftIntroduction(**_fields(message)))
        case Admission():
            return raft_pb2.RaftMessage(admission=raft_pb2.RaftAdmission(**_fields(message)))
        case Demotion():
            return raft_pb2.RaftMessage(demotion=raft_pb2.RaftDemotion(**_fields(message)))
        case _:
            assert_never(message)


def _fields(message: Message) -> dict[str, Any]:
    """Return the fields of a message whose protobuf has the same names."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    if "founders" in fields:
        fields["founders"] = founders_to_proto(fields["founders"])
    return fields


def _append_to_proto(message: Append) -> raft_pb2.RaftAppend:
    return raft_pb2.RaftAppend(
        term=message.term,
        previous_index=message.previous_index,
        previous_term=message.previous_term,
        entries=[raft_pb2.RaftEntry(term=term, command=data) for data, _, term in message.entries],
        commit_index=message.commit_index,
        quorum_id=message.quorum_id,
    )


def _from_proto(message: raft_pb2.RaftMessage) -> Message:
    match message.WhichOneof("content"):
        case "append":
            return _append_from_proto(message.append)
        case "append_response":
            response = message.append_response
            return AppendResponse(
                term=response.term,
                next_index=response.next_index,
                success=response.success,
                reset=response.reset,
                incarnation=response.incarnation,
                is_learner=response.is_learner,
            )
        case "vote_response":
            return VoteResponse(term=message.vote_response.term)
        case "pre_vote_response":
            pre_vote = message.pre_vote_response
            return PreVoteResponse(term=pre_vote.term, granted=pre_vote.granted, quorum_id=pre_vote.quorum_id)
        case "snapshot_part":
            return _part_from_proto(message.snapshot_part)
        case _:
            return _seldom_from_proto(message)


def _seldom_from_proto(message: raft_pb2.RaftMessage) -> Message:
    match message.WhichOneof("content"):
        case "vote_request":
            request = message.vote_request
            return VoteRequest(
                term=request.term,
                last_log_index=request.last_log_index,
                last_log_term=request.last_log_term,
                incarnation=request.incarnation,
                founders=founders_from_proto(request.founders),
            )
        case "pre_vote_request":
            pre_vote = message.pre_vote_request
            return PreVoteRequest(
                term=pre_vote.term,
                last_log_index=pre_vote.last_log_index,
                last_log_term=pre_vote.last_log_term,
                incarnation=pre_vote.incarnation,
                founders=founders_from_proto(pre_vote.founders),
                forms=pre_vote.forms,
            )
        case "introduction":
            introduction = message.introduction
            return Introduction(
                incarnation=introduction.incarnation, founders=founders_from_proto(introduction.founders)
            )
        case "admission":
            return Admission(term=message.admission.term, incarnation=message.admission.incarnation)
        case "demotion":
            return Demotion(term=message.demotion.term, incarnation=message.demotion.incarnation)
        case _:
            raise BadMessage("the message has no content, or is of a kind that this version does not know")


def _part_from_proto(part: raft_pb2.RaftSnapshotPart) -> SnapshotPart:
    if not 0 < part.index_term <= part.term or part.index <= FIRST_INDEX:
        raise BadMessage(
            f"a leader of term {part.term} sent a snapshot at entry {part.index} of term {part.index_term}"
        )
    return SnapshotPart(
        term=part.term,
        index=part.index,
        index_term=part.index_term,
        number=part.number,
        content=part.content,
        is_last=part.is_last,
        quorum_id=part.quorum_id,
    )


def _append_from_proto(append: raft_pb2.RaftAppend) -> Append:
    if append.previous_index < FIRST_INDEX:
        raise BadMessage("the append begins before the first entry")
    entries: list[Entry] = []
    term = append.previous_term
    for index, entry in enumerate(append.entries, append.previous_index + 1):
        if not term <= entry.term <= append.term:
            raise BadMessage(f"entry {index} of term {entry.term} is out of order")
        term = entry.term
        _check_command(index, entry.command)
        entries.append((entry.command, index, term))
    return Append(
        term=append.term,
        previous_index=append.previous_index,
        previous_term=append.previous_term,
        entries=tuple(entries),
        commit_index=append.commit_index,
        quorum_id=append.quorum_id,
    )


def _check_command(index: int, data: bytes) -> None:
    try:
        command.decode(data)
    except ValueError as error:
        raise BadMessage(f"entry {index}: {error}") from error
