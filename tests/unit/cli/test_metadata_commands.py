from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

from kraft.cli.main import application
from kraft.cli.metadata import app
from kraft.metadata.records import (
    ClusterInitialised,
    MetadataRecord,
    ScramCredentialSet,
    TopicConfigSet,
    TopicCreated,
    UnknownUsersKeySet,
)
from kraft.model.ids import TopicId
from kraft.quorum import command, journal_segments
from kraft.quorum.command import NO_OP, REGULAR, CommandKind, EntryCommand
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.snapshots import SnapshotId, SnapshotStore
from kraft.rpc.metadata_codec import encode_records
from kraft.runtime.disk import RealDisk
from kraft.server.cluster.metadata_snapshots import encode_image
from tests.support.cluster_images import CLUSTER, cluster, with_topic

TOPIC_ID = TopicId(UUID(int=9))


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["dump", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def entry(*records: MetadataRecord, term: int, kind: CommandKind = CommandKind.PAYLOAD) -> bytes:
    decided = EntryCommand(kind=kind, decided_term=term, request_id=bytes(16), payload=encode_records(records))
    return bytes([REGULAR]) + command.encode_body(decided)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A frame for each of: the first no-op, a vote with a payload, a barrier with a void payload, a truncation."""
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(bytes([NO_OP]), 1, 0)
    journal.sync()
    journal.setCurrentTerm(3, 1)
    journal.add(entry(ClusterInitialised(cluster_id="c"), term=3), 2, 3)
    journal.sync()
    journal.add(entry(term=3, kind=CommandKind.BARRIER), 3, 3)
    journal.add(entry(TopicCreated(topic="a\x1b[2J", topic_id=TOPIC_ID), term=2), 4, 3)
    journal.sync()
    journal.deleteEntriesFrom(3)
    journal.sync()
    journal.close()
    return journal.path


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    image = with_topic(cluster(1), [1]).replay([TopicConfigSet(topic_id=TopicId(UUID(int=100)), key="k", value="")])
    store = SnapshotStore(RealDisk(), str(tmp_path / "snapshots"))
    snapshot_id = SnapshotId(index=40, term=3)
    store.write(snapshot_id, encode_image(image))
    return Path(store.path(snapshot_id))


def test_a_journal_is_printed_entry_by_entry(journal: Path) -> None:
    code, out, err = run(journal)
    assert (code, err) == (0, "")
    assert out.startswith(f"Dumping {journal}\n")
    assert [line.split()[0] for line in out.splitlines()] == [
        "Dumping",
        "entry",
        "vote",
        "entry",
        "|",
        "entry",
        "entry",
        "|",
        "truncation",
    ]
    assert "entry position: 16 index: 1 term: 0 kind: no-op\n" in out
    assert " term: 3 voted_for: 1\n" in out
    assert " index: 2 term: 3 kind: payload is_void: false\n| ClusterInitialised cluster_id: c\n" in out
    assert " index: 3 term: 3 kind: barrier is_void: false\n" in out
    assert f"kind: payload is_void: true\n| TopicCreated topic: a\\x1b[2J topic_id: {TOPIC_ID}\n" in out
    assert out.endswith(" from_index: 4\n")


def test_a_snapshot_is_printed_record_by_record(snapshot: Path) -> None:
    code, out, err = run(snapshot)
    assert (code, err) == (0, "")
    assert out.startswith(f"Dumping {snapshot}\nsnapshot position: 0 index: 40 term: 3\nchunk position: 40 bytes: ")
    assert f"| ClusterInitialised cluster_id: {CLUSTER}\n" in out
    assert "endpoints: [(listener: GRPC host: localhost port: 9095)]" in out
    assert "partition: 0 replicas: [1] isr: [1] leader: 1 leader_epoch: 0" in out
    assert 'key: k value: ""\n' in out


def test_programs_get_an_object_a_line(journal: Path, snapshot: Path) -> None:
    code, out, err = run("--output", "json", journal, snapshot)
    facts = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert {fact["file"] for fact in facts} == {str(journal), str(snapshot)}
    (created, again) = [fact for fact in facts if fact.get("record") == "TopicCreated"]
    assert created["fields"] == {"topic": "a\x1b[2J", "topic_id": str(TOPIC_ID)}
    assert again["fields"]["topic"] == "orders"
    (barrier,) = [fact for fact in facts if fact.get("kind") == "barrier"]
    assert (barrier["type"], barrier["index"], barrier["term"], barrier["is_void"]) == ("entry", 3, 3, False)


def test_a_trimmed_journal_tells_to_where(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    for index in (1, 2, 3):
        journal.add(bytes([NO_OP]), index, 4)
    journal.trim(2)
    journal.close()
    code, out, _ = run(journal.path)
    assert code == 0
    assert out.splitlines()[1:] == [
        "entry position: 16 index: 1 term: 4 kind: no-op",
        "entry position: 16 index: 2 term: 4 kind: no-op",
        "entry position: 16 index: 3 term: 4 kind: no-op",
        "trim position: 16 index: 2 term: 4",
    ]


def test_a_further_segment_of_a_journal_names_what_it_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_segments, "SEGMENT_BYTES", 1)
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(bytes([NO_OP]), 1, 4)
    journal.setCurrentTerm(4, 2)
    journal.sync()
    journal.rebase(9, 4)
    journal.close()
    code, out, _ = run(journal.path)
    assert code == 0
    assert out.splitlines()[1:] == [
        "start position: 16 segment: 3 index: 9 term: 4",
        "vote position: 16 term: 4 voted_for: 2",
    ]


def test_a_torn_end_of_a_journal_is_reported_and_is_not_an_error(journal: Path) -> None:
    size = journal.stat().st_size
    with journal.open("ab") as file:
        file.write(b"\xf1KQF half")
    code, out, err = run(journal)
    assert (code, err) == (0, "")
    assert out.endswith(f"torn position: {size} bytes: 9\n")


def test_corruption_in_a_journal_is_one_line_with_its_place_after_what_can_be_read(journal: Path) -> None:
    content = bytearray(journal.read_bytes())
    position = content.find(b"\xf1KQF", 20)
    content[position + 20] ^= 1
    journal.write_bytes(content)
    code, out, err = run(journal)
    assert code == 1
    assert "kind: no-op" in out
    assert "ClusterInitialised" not in out
    assert err.startswith(f"kraft: {journal} at byte {position}: corrupt, but a later frame")
    assert err.count("\n") == 1


def test_a_damaged_snapshot_is_one_line_with_its_place(snapshot: Path) -> None:
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    place = snapshot.stat().st_size - 7
    for output in ("table", "json"):
        code, out, err = run(snapshot, "--output", output)
        assert code == 1
        assert "ClusterInitialised" in out
        assert err == f"kraft: {snapshot} at byte {place}: the snapshot ends early\n"
        if output == "json":
            assert json.loads(out.splitlines()[-1])["type"] == "damage"


def test_other_files_are_named_and_the_rest_is_printed(tmp_path: Path, snapshot: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(b"anything")
    code, out, err = run(other, tmp_path / "none", snapshot)
    assert code == 1
    assert err.splitlines() == [
        f"kraft: {other} at byte 0: neither a quorum journal nor a metadata snapshot",
        f"kraft: {tmp_path / 'none'}: No such file or directory",
    ]
    assert "snapshot position: 0 index: 40" in out


def test_an_entry_of_a_later_version_is_one_line(tmp_path: Path) -> None:
    journal = QuorumJournal(tmp_path, RealDisk())
    payload = EntryCommand(kind=CommandKind.PAYLOAD, decided_term=1, request_id=bytes(16), payload=b"\xff\xff")
    journal.add(bytes([REGULAR]) + command.encode_body(payload), 1, 1)
    journal.sync()
    journal.close()
    code, _, err = run(journal.path)
    assert code == 1
    assert err.startswith(f"kraft: {journal.path} at byte 16: entry 1: ")
    assert err.count("\n") == 1


def test_the_command_is_part_of_kraft(snapshot: Path) -> None:
    arguments = ["metadata", "dump", str(snapshot)]
    assert CliRunner().invoke(application(arguments), arguments).exit_code == 0


def test_what_is_kept_of_passwords_is_not_printed(tmp_path: Path) -> None:
    secrets = [letter * 32 for letter in (b"A", b"B", b"C", b"D")]
    salt, stored_key, server_key, unknown_users_key = secrets
    credential = ScramCredentialSet(
        user="alice",
        mechanism="SCRAM-SHA-256",
        salt=salt,
        iterations=4_096,
        stored_key=stored_key,
        server_key=server_key,
    )
    journal = QuorumJournal(tmp_path, RealDisk())
    journal.add(entry(UnknownUsersKeySet(key=unknown_users_key), credential, term=3), 1, 3)
    journal.sync()
    journal.close()
    for output in ("table", "json"):
        code, out, err = run(journal.path, "--output", output)
        assert (code, err) == (0, "")
        assert all(text in out for text in ("UnknownUsersKeySet", "alice", "4096"))
        for secret in secrets:
            assert not any(text in out for text in (secret.decode(), secret.hex(), b64encode(secret).decode()[:40]))
