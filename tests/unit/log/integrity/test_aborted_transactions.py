"""`.txnindex` files are compared with the abort markers of their segments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.log.change import run_now
from kraft.log.integrity.directory import FileFinding, verify_partition
from kraft.log.integrity.index_checks import FAULTS_MAX
from kraft.log.recovery.log_checkpoint import read_checkpoint, write_checkpoint
from kraft.log.topic_config import UNLIMITED, TopicConfig
from kraft.log.transactions.aborted import ENTRY_BYTES, AbortedTxn, decode_entries
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, append, open_log
from tests.support.log.transactional_log import ABORT, COMMIT, end, send

SMALL = TopicConfig(segment_bytes=700, index_interval_bytes=100, retention_ms=UNLIMITED)


def written(*, closed: bool = True, rounds: int = 6) -> MemoryDisk:
    """A log with interleaved transactions: those of producer 1 are aborted, those of producer 2 committed."""
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    for number in range(rounds):
        send(log, 1, 2 * number, "a", "b")
        send(log, 2, number, "c")
        end(log, 2, COMMIT)
        end(log, 1, ABORT)
    send(log, 3, 0, "open")
    if closed:
        log.close()
    return disk


def findings(disk: MemoryDisk, *, was_closed: bool = True) -> list[FileFinding]:
    found = verify_partition(disk, DIRECTORY, was_closed=was_closed).findings
    return [finding._replace(file=finding.file.removeprefix(f"{DIRECTORY}/")) for finding in found]


def indexes(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(".txnindex")]


def entries(disk: MemoryDisk, name: str) -> list[AbortedTxn]:
    return list(decode_entries(disk.read_file(f"{DIRECTORY}/{name}")))


def change(disk: MemoryDisk, name: str, changed: list[AbortedTxn]) -> None:
    disk.write_file(f"{DIRECTORY}/{name}", b"".join(each.encode() for each in changed))


def test_sound_indexes_have_no_findings() -> None:
    disk = written()
    assert sum(len(entries(disk, name)) for name in indexes(disk)) == 6
    assert len(indexes(disk)) > 1
    assert findings(disk) == []


def test_a_marker_whose_records_retention_has_deleted_is_no_fault() -> None:
    """The snapshots know the producer's sequence from records that are deleted, and the log has its marker only."""
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    send(log, 1, 0, "deleted")
    run_now(log.rolling())
    end(log, 1, ABORT)
    run_now(log.rolling())
    append(log, "later")
    run_now(log.rolling())
    run_now(log.advancing_log_start(Offset(1)))
    run_now(log.applying_retention(NOW_MS, log.log_end_offset))
    log.close()
    assert f"{0:020d}.log" not in disk.list(DIRECTORY)
    assert findings(disk) == []


def test_the_entries_of_an_active_segment_are_not_in_its_file_yet() -> None:
    disk = written(closed=False)
    assert findings(disk, was_closed=False) == []


def test_a_log_whose_start_was_moved_is_sound() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    send(log, 1, 0, "begins in the first segment")
    for number in range(12):
        send(log, 2, number, "x" * 50)
        end(log, 2, COMMIT)
    send(log, 1, 1, "goes on")
    end(log, 1, ABORT)
    base_offset = log.segments()[1].base_offset
    log.close()
    for name in disk.list(DIRECTORY):
        if name.startswith("0" * 20):
            disk.remove(f"{DIRECTORY}/{name}")
    checkpoint = read_checkpoint(disk, DIRECTORY)
    write_checkpoint(disk, DIRECTORY, replace(checkpoint, log_start_offset=base_offset))
    assert findings(disk) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"producer_id": 2}, "from offset 0 to 4, where the producer is 1"),
        ({"first_offset": 1}, "from offset 1 to 4, but in the log it begins at offset 0"),
        ({"last_offset": 5}, "from offset 0 to 5, where no transaction is aborted"),
    ],
)
def test_an_entry_that_contradicts_the_log_is_a_fault(changed: dict[str, int], words: str) -> None:
    disk = written(rounds=3)
    name = indexes(disk)[0]
    first, *rest = entries(disk, name)
    change(disk, name, [first._replace(**changed), *rest])
    found = findings(disk)
    assert not any(each.is_note for each in found)
    assert {each.file for each in found} == {name}
    assert any(each.reason.endswith(words) for each in found)


def test_an_entry_that_is_missing_or_too_many_is_a_fault() -> None:
    disk = written()
    name = indexes(disk)[0]
    before = entries(disk, name)
    change(disk, name, before[1:])
    (missing,) = findings(disk)
    assert missing == FileFinding(name, 0, "the transaction of producer 1 from offset 0 to 4 is missing")
    added = AbortedTxn(9, 0, 10_000, 0)
    change(disk, name, [*before, added])
    (superfluous,) = findings(disk)
    place = len(before) * ENTRY_BYTES
    reason = "the entry names the transaction of producer 9 from offset 0 to 10000, beyond the end of the log"
    assert superfluous == FileFinding(name, place, reason)
    change(disk, name, [])
    assert len(findings(disk)) == len(before) <= FAULTS_MAX


@pytest.mark.parametrize("end_bytes", [b"\0", b"\0" * (ENTRY_BYTES - 1)])
def test_a_partial_entry_is_a_fault(end_bytes: bytes) -> None:
    disk = written()
    name = indexes(disk)[0]
    whole = disk.read_file(f"{DIRECTORY}/{name}")
    disk.write_file(f"{DIRECTORY}/{name}", whole + end_bytes)
    (found,) = findings(disk)
    assert (found.file, found.position, found.is_note) == (name, len(whole), False)
    assert "not a whole entry of 34 bytes" in found.reason


def test_an_index_of_another_version_is_a_fault() -> None:
    disk = written()
    name = indexes(disk)[0]
    disk.write_file(f"{DIRECTORY}/{name}", b"\0\1" + disk.read_file(f"{DIRECTORY}/{name}")[2:])
    found = findings(disk)
    assert found[0] == FileFinding(name, 0, "an entry has version 1, not 0")


def test_a_missing_index_is_a_note_if_opening_the_log_rebuilds_it() -> None:
    disk = written()
    name = indexes(disk)[0]
    disk.remove(f"{DIRECTORY}/{name}")
    assert findings(disk) == [FileFinding(name, 0, "the file is missing; opening the log rebuilds it", is_note=True)]


def test_a_missing_index_is_a_fault_if_nothing_says_that_there_is_one() -> None:
    disk = written()
    write_checkpoint(disk, DIRECTORY, replace(read_checkpoint(disk, DIRECTORY), aborted_from=None))
    assert findings(disk) == []
    name = indexes(disk)[0]
    disk.remove(f"{DIRECTORY}/{name}")
    assert findings(disk) == [FileFinding(name, 0, "the file is missing: aborted records would be read as committed")]
