"""`kraft metadata shell`: what it loads from a node's files, and its commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kraft.cli.foreground import Terminated
from kraft.cli.metadata_shell.loading import LoadedMetadata, load
from kraft.cli.metadata_shell.shell import MetadataShell
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import (
    AclAdded,
    MetadataRecord,
    MetadataTransactionBegun,
    ScramCredentialSet,
    TopicConfigSet,
    TopicCreated,
    TopicDeleted,
)
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import Corruption
from kraft.model.ids import TopicId
from kraft.quorum import command, journal_format
from kraft.quorum.command import NO_OP, REGULAR, CommandKind, EntryCommand
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.journal_segments import segment_name
from kraft.quorum.snapshots import Snapshot, SnapshotId, SnapshotStore
from kraft.rpc.metadata_codec import encode_records
from kraft.runtime.disk import RealDisk
from kraft.server.cluster.metadata_snapshots import encode_image
from tests.support.cluster_images import cluster, with_topic
from tests.unit.cli.shell import Shell

TOPIC = TopicId(UUID(int=100))

IMAGE = with_topic(cluster(1), [1], [1]).replay(
    [
        TopicConfigSet(topic_id=TOPIC, key="retention.ms", value="1000"),
        AclAdded(
            resource_type=ResourceType.TOPIC,
            resource_name="bill",
            pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            host="*",
            operation=Operation.READ,
            permission=PermissionType.ALLOW,
        ),
        ScramCredentialSet(
            user="alice",
            mechanism="SCRAM-SHA-256",
            salt=b"salt",
            stored_key=b"k" * 32,
            server_key=b"s" * 32,
            iterations=4_096,
        ),
    ]
)


def entry(*records: MetadataRecord, term: int = 1) -> bytes:
    decided = EntryCommand(
        kind=CommandKind.PAYLOAD, decided_term=term, request_id=bytes(16), payload=encode_records(records)
    )
    return bytes([REGULAR]) + command.encode_body(decided)


def write_journal(directory: Path, *entries: bytes) -> None:
    journal = QuorumJournal(directory, RealDisk())
    for index, each in enumerate(entries, 1):
        journal.add(each, index, 1)
    journal.sync()
    journal.close()


def write_snapshot(folder: Path, image: MetadataImage, index: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    store, snapshot_id = SnapshotStore(RealDisk(), str(folder)), SnapshotId(index=index, term=1)
    store.write(snapshot_id, encode_image(image))
    return Path(store.path(snapshot_id))


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    (tmp_path / "__cluster_metadata").mkdir()
    return tmp_path


def topics_of(loaded: LoadedMetadata) -> list[str]:
    return sorted(loaded.image.topic_ids)


def test_a_journal_is_replayed_without_what_has_no_effect(log_directory: Path) -> None:
    ids = [TopicId(UUID(int=each)) for each in range(6)]
    write_journal(
        log_directory / "__cluster_metadata",
        bytes([NO_OP]),
        entry(TopicCreated(topic="kept", topic_id=ids[1])),
        entry(TopicCreated(topic="of another term", topic_id=ids[2]), term=2),
        entry(TopicCreated(topic="deleted", topic_id=ids[3])),
        entry(TopicDeleted(topic_id=ids[3])),
        entry(MetadataTransactionBegun(), TopicCreated(topic="in a transaction", topic_id=ids[4])),
    )
    loaded = load(log_directory)
    assert (topics_of(loaded), loaded.index, loaded.has_journal) == (["kept"], 6, True)
    assert load(log_directory / "__cluster_metadata") == loaded


def test_a_journal_goes_on_after_the_latest_snapshot(log_directory: Path) -> None:
    inner = log_directory / "__cluster_metadata"
    write_snapshot(inner / "controller", EMPTY_IMAGE.replay([TopicCreated(topic="old", topic_id=TOPIC)]), 1)
    write_journal(
        inner,
        bytes([NO_OP]),
        entry(TopicCreated(topic="in the snapshot", topic_id=TopicId(UUID(int=2)))),
        entry(TopicCreated(topic="new", topic_id=TopicId(UUID(int=3)))),
    )
    write_snapshot(inner / "broker", EMPTY_IMAGE.replay([TopicCreated(topic="later", topic_id=TOPIC)]), 2)
    assert topics_of(load(log_directory)) == ["later", "new"]


def test_of_damaged_snapshots_the_one_before_is_loaded(log_directory: Path) -> None:
    folder = log_directory / "__cluster_metadata" / "broker"
    write_snapshot(folder, IMAGE, 4)
    damaged = write_snapshot(folder, EMPTY_IMAGE, 9)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    loaded = load(log_directory)
    assert (loaded.index, loaded.has_journal, topics_of(loaded)) == (4, False, ["orders"])


def test_a_gap_between_snapshot_and_journal_is_corruption(log_directory: Path) -> None:
    journal = log_directory / "__cluster_metadata" / "__cluster_metadata" / segment_name(0)
    journal.parent.mkdir()
    header = journal_format.encode_header()
    entries = journal_format.encode_entry(5, 1, bytes([NO_OP]))
    journal.write_bytes(header + journal_format.encode_frame(len(header), entries))
    with pytest.raises(Corruption, match="entry 1 is missing, the next one is 5"):
        load(log_directory)


def test_a_node_that_removes_entries_for_a_new_snapshot_meanwhile_is_read_again(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = log_directory / "__cluster_metadata"
    image = EMPTY_IMAGE.replay([TopicCreated(topic="old", topic_id=TOPIC)])
    write_snapshot(inner / "controller", image, 1)
    write_journal(inner, bytes([NO_OP]), bytes([NO_OP]))
    later = inner / "__cluster_metadata" / segment_name(4)
    read = SnapshotStore.read

    def read_slowly(store: SnapshotStore, snapshot_id: SnapshotId) -> Snapshot:
        found = read(store, snapshot_id)
        if not later.exists():
            for segment in later.parent.iterdir():
                segment.unlink()
            header = journal_format.encode_header()
            later.write_bytes(
                header + journal_format.encode_frame(len(header), journal_format.encode_entry(5, 1, bytes([NO_OP])))
            )
            write_snapshot(inner / "controller", image, 4)
        return found

    monkeypatch.setattr(SnapshotStore, "read", read_slowly)
    assert load(log_directory).index == 5


def test_a_directory_without_metadata_is_one_line(tmp_path: Path, kraft: Shell) -> None:
    assert kraft.run("metadata", "shell", str(tmp_path)) == 1
    assert kraft.err == f"kraft: {tmp_path} is no log directory with metadata: it has no __cluster_metadata\n"


def test_commands_are_given_or_read_from_standard_input(log_directory: Path, kraft: Shell) -> None:
    write_snapshot(log_directory / "__cluster_metadata" / "broker", IMAGE, 4)
    assert kraft.run("metadata", "shell", str(log_directory), "ls", "/topics") == 0
    assert (kraft.out, kraft.err) == ("orders/\n", "")
    assert kraft.run("metadata", "shell", str(log_directory), stdin=b"cd topics\ncat nope\npwd\nexit\nls\n") == 1
    assert (kraft.out, kraft.err) == ("/topics\n", "kraft: there is no nope\n")


def test_who_gives_an_address_hears_that_files_are_read(kraft: Shell) -> None:
    assert kraft.run("metadata", "shell", "--bootstrap-server", "localhost:9094") == 1
    assert kraft.err.startswith("kraft: the shell reads files, not a cluster: give a log directory")


# --- commands ----------------------------------------------------------------------------------------------------


PATHS_ONLY = (
    "commands take paths only: for pipes and options of others give the command at once, as in 'kraft metadata shell "
    "DIRECTORY find /topics | grep orders'"
)


class Session:
    """A shell on the image, and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.errors: list[str] = []
        self.image = IMAGE
        self.error: OSError | None = None
        self.shell = MetadataShell(self._load, self.errors.append)
        self._capsys = capsys

    def _load(self) -> LoadedMetadata:
        if self.error is not None:
            raise self.error
        return LoadedMetadata(image=self.image, index=9, has_journal=True)

    def __call__(self, line: str) -> str:
        assert not self.shell.onecmd(line)
        return self._capsys.readouterr().out


@pytest.fixture
def session(capsys: pytest.CaptureFixture[str]) -> Session:
    return Session(capsys)


def test_directories_are_walked(session: Session) -> None:
    assert session("ls") == "acls/  brokers/  cluster  configs/  features  log  quotas  topic-ids/  topics/  users/\n"
    session("cd topics/orders")
    assert session("pwd") == "/topics/orders\n"
    assert session.shell.prompt == "/topics/orders> "
    assert session("ls") == "configs  id  partitions/\n"
    assert session("cat id") == f"{TOPIC}\n"
    session("cd ..")
    assert session("cat orders/./configs") == '{\n  "retention.ms": "1000"\n}\n'
    session("cd")
    assert session("pwd") == "/\n"
    assert session("find /topics/ord*/part*") == (
        "/topics/orders/partitions\n/topics/orders/partitions/0\n/topics/orders/partitions/1\n"
    )
    tree = session("tree topics/orders")
    assert tree.startswith('orders:\n  configs: {\n      "retention.ms": "1000"\n    }\n  id: ')
    assert session.errors == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("ls /nope", "there is no /nope"),
        ("cat /topics", "/topics is a directory: list it with ls, or print all of it with tree"),
        ("cat", "name a path: cat PATH"),
        ("cd /cluster", "/cluster is not one directory"),
        ("cd /*", "/* is not one directory"),
        ("cat 'open", "'open: No closing quotation"),
        ("remove /topics", "there is no command 'remove': 'help' lists them"),
        ("'", "there is no command \"'\": 'help' lists them"),
        ("help nope", "there is no command 'nope': 'help' lists them"),
        ("find . -name orders", f"-name: {PATHS_ONLY}"),
        ("ls | grep orders", f"|: {PATHS_ONLY}"),
    ],
)
def test_an_error_is_one_line_and_the_shell_goes_on(session: Session, line: str, error: str) -> None:
    assert session(line) == ""
    assert session.errors == [error]
    assert session("pwd") == "/\n"


def test_nothing_that_is_kept_of_passwords_is_shown(session: Session) -> None:
    everything = session("tree /")
    assert '"iterations": 4096' in session("cat /users/alice")
    assert "salt" not in everything
    assert "kkkk" not in everything
    assert '"operation": "read"' in session("cat '/acls/topic/bill (prefixed)'")


def test_everything_that_a_snapshot_has_is_somewhere(session: Session) -> None:
    paths = session("find /").splitlines()
    assert len(list(snapshot_records(IMAGE))) > 5
    for wanted in ("/brokers/1", "/features", "/quotas", "/configs/brokers", "/topic-ids/" + str(TOPIC), "/log"):
        assert wanted in paths


@pytest.mark.parametrize(
    ("typed", "text", "found"),
    [
        ("ls top", "top", ["topic-ids/", "topics/"]),
        ("cat /topics/or", "or", ["orders/"]),
        ("cat /topics/orders/i", "i", ["id "]),
        ("cat /nope/x", "x", []),
    ],
)
def test_paths_are_completed(session: Session, typed: str, text: str, found: list[str]) -> None:
    assert session.shell.completedefault(text, typed, len(typed) - len(text), len(typed)) == found


def test_help_says_in_a_line_what_each_command_does(session: Session) -> None:
    lines = session("help").splitlines()
    assert "cat PATH...: print files." in lines
    assert not [line for line in lines if line.startswith("Ctrl-D")]
    assert session("help ls") == "ls [PATH...]: list directories.\n"


def test_ctrl_c_drops_a_line_and_a_hyphen_ends_no_word(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readline = pytest.importorskip("readline")
    typed: Iterator[str | BaseException] = iter([KeyboardInterrupt(), "pwd", Terminated()])

    def read(_: str) -> str:
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", read)
    session.shell.stdout = sys.stdout
    before = readline.get_completer_delims()
    try:
        with pytest.raises(Terminated):
            session.shell.run()
        assert readline.get_completer_delims() == " /"
    finally:
        readline.set_completer_delims(before)
    intro, *printed = capsys.readouterr().out.splitlines()
    assert intro == session.shell.__class__.intro
    assert printed[-1] == "/"


def test_a_refresh_stays_in_the_directory_if_it_is_still_there(session: Session) -> None:
    session("cd /topics/orders")
    assert session("refresh").startswith("as of entry 9 of the metadata log")
    assert session("pwd") == "/topics/orders\n"
    session.image = EMPTY_IMAGE
    session("refresh")
    assert (session("pwd"), session.shell.prompt) == ("/\n", "/> ")


def test_files_that_are_gone_are_one_line(session: Session) -> None:
    session.error = FileNotFoundError(2, "No such file or directory", "/data/__cluster_metadata")
    session("refresh")
    assert session.errors == ["/data/__cluster_metadata: No such file or directory"]
    assert session("ls topics") == "orders/\n"
