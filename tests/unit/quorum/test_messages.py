from __future__ import annotations

import pickle
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.quorum import command
from kraft.quorum.command import CommandKind, EntryCommand
from kraft.quorum.config import FRAME_BYTES_MAX
from kraft.quorum.frames import KINDS, from_frame, to_frames
from kraft.quorum.membership import INCARNATION_BYTES, Membership
from kraft.quorum.messages import (
    Admission,
    AppendEntries,
    AppendEntriesResponse,
    BadMessage,
    Demotion,
    ForEngine,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    QuorumIntroduction,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
    from_engine,
    to_engine,
)
from kraft.quorum.pb import raft_pb2
from tests.support.anonymous_messages import anonymous

NUMBERS = st.integers(1, 2**63)
INCARNATIONS = st.binary(min_size=INCARNATION_BYTES, max_size=INCARNATION_BYTES)
FOUNDERS = st.dictionaries(st.integers(0, 2**31 - 1), INCARNATIONS, max_size=5)
SENDER = Membership(node_id=1, incarnation=bytes(INCARNATION_BYTES)).joining({1: bytes(INCARNATION_BYTES)})


def regular(payload: bytes) -> bytes:
    entry = EntryCommand(kind=CommandKind.PAYLOAD, decided_term=3, request_id=bytes(16), payload=payload)
    return bytes([command.REGULAR]) + command.encode_body(entry)


@st.composite
def appends(draw: st.DrawFn) -> AppendEntries:
    previous_index = draw(NUMBERS)
    terms = sorted(draw(st.lists(NUMBERS, max_size=5)))
    commands = draw(st.lists(st.binary(max_size=20).map(regular) | st.just(b"\1"), min_size=5, max_size=5))
    entries = zip(commands, range(previous_index + 1, previous_index + 6), terms, strict=False)
    return AppendEntries(
        term=2**63,
        previous_index=previous_index,
        previous_term=min(terms, default=1),
        entries=tuple(entries),
        commit_index=draw(NUMBERS),
    )


FOR_ENGINE = st.one_of(
    appends(),
    st.builds(AppendEntriesResponse, term=NUMBERS, next_index=NUMBERS, success=st.booleans(), reset=st.booleans()),
    st.builds(VoteRequest, term=NUMBERS, last_log_index=NUMBERS, last_log_term=NUMBERS),
    st.builds(VoteResponse, term=NUMBERS),
)

MESSAGES = st.one_of(
    FOR_ENGINE,
    st.builds(
        AppendEntriesResponse,
        term=NUMBERS,
        next_index=NUMBERS,
        success=st.booleans(),
        reset=st.booleans(),
        incarnation=INCARNATIONS,
        is_learner=st.booleans(),
    ),
    st.builds(
        VoteRequest,
        term=NUMBERS,
        last_log_index=NUMBERS,
        last_log_term=NUMBERS,
        incarnation=INCARNATIONS,
        founders=FOUNDERS,
    ),
    st.builds(
        PreVoteRequest,
        term=NUMBERS,
        last_log_index=NUMBERS,
        last_log_term=NUMBERS,
        incarnation=INCARNATIONS,
        founders=FOUNDERS,
        forms=st.booleans(),
    ),
    st.builds(PreVoteResponse, term=NUMBERS, granted=st.booleans(), quorum_id=INCARNATIONS),
    st.builds(QuorumIntroduction, incarnation=INCARNATIONS, founders=FOUNDERS),
    st.builds(Admission, term=NUMBERS, incarnation=INCARNATIONS),
    st.builds(Demotion, term=NUMBERS, incarnation=INCARNATIONS),
    st.builds(
        SnapshotPart,
        term=st.just(2**63),
        index=st.integers(2, 2**63),
        index_term=NUMBERS,
        number=st.integers(0, 2**31),
        content=st.binary(max_size=50),
        is_last=st.booleans(),
        quorum_id=INCARNATIONS,
    ),
)


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_messages_come_through_the_wire_as_they_were(messages: list[Message]) -> None:
    received: list[Message] = []
    for frame in to_frames(messages):
        received += from_frame(raft_pb2.RaftFrame.FromString(frame.SerializeToString()))
    assert received == messages


def test_each_kind_of_message_has_a_protobuf_with_its_fields() -> None:
    contents = {field.name: field.message_type for field in raft_pb2.RaftMessage.DESCRIPTOR.fields}
    assert KINDS.keys() == contents.keys()
    assert set(KINDS.values()) == set(get_args(Message))
    for name, kind in KINDS.items():
        content = contents[name]
        assert content is not None
        assert set(kind.__struct_fields__) == set(content.fields_by_name)


@given(FOR_ENGINE)
def test_messages_come_through_the_engines_dictionaries_as_they_were(message: ForEngine) -> None:
    term = message.term if isinstance(message, AppendEntriesResponse) else 1
    translated = from_engine(to_engine(message), term, SENDER)
    assert translated is not None
    assert anonymous(translated) == message


@pytest.mark.parametrize("kind", ["apply_command", "apply_command_response", "timeout_now"])
def test_what_the_engine_knows_beyond_the_four_messages_does_not_leave(kind: str) -> None:
    assert from_engine({"type": kind, "command": b"", "term": 1, "request_id": 1}, 1, SENDER) is None


def test_snapshots_and_entries_in_pieces_do_not_leave() -> None:
    assert from_engine({"type": "append_entries", "term": 1, "commit_index": 1, "serialized": None}, 1, SENDER) is None
    assert from_engine({"type": "append_entries", "term": 1, "transmission": "start", "data": b""}, 1, SENDER) is None


def test_large_messages_are_spread_over_frames_within_the_cap() -> None:
    largest = AppendEntries(
        term=3,
        previous_index=1,
        previous_term=1,
        entries=((regular(bytes(3 * 512 * 1024)), 2, 3),),
        commit_index=1,
    )
    frames = to_frames([largest, largest, VoteResponse(term=1), largest])
    assert len(frames) == 3
    assert all(frame.ByteSize() < FRAME_BYTES_MAX for frame in frames)


def test_no_messages_are_one_empty_frame_as_a_sign_of_life() -> None:
    (frame,) = to_frames([])
    assert from_frame(raft_pb2.RaftFrame.FromString(frame.SerializeToString())) == []


def frame_with(append: raft_pb2.RaftAppend) -> raft_pb2.RaftFrame:
    return raft_pb2.RaftFrame(batch=raft_pb2.RaftBatch(messages=[raft_pb2.RaftMessage(append=append)]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0" + pickle.dumps((0, (b"x",))),
        bytes([2]) + pickle.dumps(["add", "stranger:1"]),
        bytes([3]) + pickle.dumps(7),
        b"\1with something behind it",
        b"\0" + bytes([9]) + bytes(24),
    ],
)
def test_a_command_that_is_not_ours_is_refused_before_the_engine_sees_it(data: bytes) -> None:
    entry = raft_pb2.RaftEntry(term=1, command=data)
    with pytest.raises(BadMessage, match="entry 2"):
        from_frame(frame_with(raft_pb2.RaftAppend(term=1, previous_index=1, entries=[entry])))


def test_appends_that_no_leader_sends_are_refused() -> None:
    with pytest.raises(BadMessage, match="before the first"):
        from_frame(frame_with(raft_pb2.RaftAppend(term=1, previous_index=0)))
    falling = [raft_pb2.RaftEntry(term=term, command=b"\1") for term in (3, 2)]
    with pytest.raises(BadMessage, match="out of order"):
        from_frame(frame_with(raft_pb2.RaftAppend(term=3, previous_index=1, entries=falling)))
    with pytest.raises(BadMessage, match="out of order"):
        from_frame(frame_with(raft_pb2.RaftAppend(term=2, previous_index=1, entries=falling[:1])))


@pytest.mark.parametrize(
    ("term", "index", "index_term"), [(3, 9, 0), (3, 9, 4), (3, 1, 2)], ids=["no term", "later term", "no entry"]
)
def test_parts_of_snapshots_that_no_leader_sends_are_refused(term: int, index: int, index_term: int) -> None:
    part = raft_pb2.RaftSnapshotPart(term=term, index=index, index_term=index_term)
    batch = raft_pb2.RaftBatch(messages=[raft_pb2.RaftMessage(snapshot_part=part)])
    with pytest.raises(BadMessage, match=f"a leader of term {term} sent a snapshot at entry {index}"):
        from_frame(raft_pb2.RaftFrame(batch=batch))


def test_empty_frames_second_hellos_and_empty_messages_are_refused() -> None:
    empty = raft_pb2.RaftFrame(batch=raft_pb2.RaftBatch(messages=[raft_pb2.RaftMessage()]))
    for frame in (raft_pb2.RaftFrame(), raft_pb2.RaftFrame(hello=raft_pb2.RaftHello()), empty):
        with pytest.raises(BadMessage):
            from_frame(frame)
