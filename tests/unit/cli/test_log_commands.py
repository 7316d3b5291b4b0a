from __future__ import annotations

import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kraft.cli.log import app
from kraft.cli.log.kafka_lines import safe
from kraft.cli.main import application
from kraft.log.change import run_now
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import UNLIMITED, TopicConfig
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.high_watermarks import write_high_watermarks
from kraft.server.replica.log_directories import as_log_directory

ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
SMALL = TopicConfig(segment_bytes=2_000, index_interval_bytes=200, retention_ms=UNLIMITED)
FIRST_LINE = (
    "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: 0 lastSequence: 2 producerId: 7 producerEpoch: 1 "
    "partitionLeaderEpoch: 4 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
    "CreateTime: 1002 size: {size} magic: 2 compresscodec: none crc: {crc} isvalid: true"
)


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def batch(number: int) -> bytes:
    records = [
        Record(0, 1_000 + 10 * number, None, b"first"),
        Record(0, 1_001 + 10 * number, b"key\x1b[2J", b"\xff second\n", (("trace", b"\x01"), ("trace", None))),
        Record(0, 1_002 + 10 * number, b"gone", None),
    ]
    return build_batch(records, Codec(number % 5), producer_id=7, producer_epoch=1, base_sequence=3 * number)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory of a partition with several segments, closed cleanly."""
    path = tmp_path / "data" / "orders-0"
    write_log(path)
    return path


def write_log(path: Path, topic_partition: TopicPartition = ORDERS) -> None:
    log = PartitionLog.open(RealDisk(), str(path), SMALL, topic_partition)
    for number in range(40):
        log.append_as_leader(batch(number), LeaderEpoch(4), NOW_MS, run_now)
    log.close()


def first(directory: Path, suffix: str) -> Path:
    return min(directory.glob(f"*{suffix}"))


def last(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"))


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- kraft log dump --------------------------------------------------------------------------------------------------


def test_a_log_file_is_printed_batch_by_batch(directory: Path) -> None:
    file = first(directory, ".log")
    code, output, errors = run("dump", file)
    lines = output.splitlines()
    assert (code, errors) == (0, "")
    assert lines[:2] == [f"Dumping {file}", "Log starting offset: 0"]
    size, crc = len(batch(0)), struct.unpack_from(">I", batch(0), 17)[0]
    assert lines[2] == FIRST_LINE.format(size=size, crc=crc)
    assert " position: " + str(size) + " " in lines[3]


def test_records_are_printed_so_that_no_terminal_obeys_them(directory: Path) -> None:
    _, output, _ = run("dump", "--print-data-log", first(directory, ".log"))
    second = (
        "| offset: 1 CreateTime: 1001 keySize: 7 valueSize: 9 sequence: 1 headerKeys: [trace,trace] "
        "key: key\\x1b[2J payload: \N{REPLACEMENT CHARACTER} second\\n"
    )
    assert output.splitlines()[3:6] == [
        "| offset: 0 CreateTime: 1000 keySize: -1 valueSize: 5 sequence: 0 headerKeys: [] payload: first",
        second,
        "| offset: 2 CreateTime: 1002 keySize: 4 valueSize: -1 sequence: 2 headerKeys: [] key: gone",
    ]
    assert "\x1b" not in output


def test_text_that_moves_the_cursor_or_turns_the_line_is_escaped() -> None:
    assert safe("a\tb\r\x7f\x9b\u202e\u2028 é \U0001f511") == "a\\tb\\r\\x7f\\x9b\\u202e\\u2028 é \U0001f511"


def test_deep_iteration_prints_no_contents(directory: Path) -> None:
    _, output, _ = run("dump", "--deep-iteration", first(directory, ".log"))
    assert "valueSize: 5 sequence: 0 headerKeys: []\n" in output
    assert "payload" not in output


def test_record_metadata_can_be_left_out(directory: Path) -> None:
    _, output, _ = run("dump", "--print-data-log", "--skip-record-metadata", first(directory, ".log"))
    assert output.splitlines()[3] == "| payload: first"
    assert output.splitlines()[5] == "| key: gone"


def test_files_are_named_in_kafkas_way_too(directory: Path) -> None:
    files = [first(directory, ".log"), first(directory, ".index")]
    assert run("dump", "--files", ",".join(map(str, files))) == run("dump", *files)


def test_so_many_bytes_are_read_in_whole_batches(directory: Path) -> None:
    size = len(batch(0))
    for limit, batches in ((size - 1, 0), (size, 1), (size + 1, 1), (size + len(batch(1)), 2)):
        code, output, errors = run("dump", "--max-bytes", str(limit), first(directory, ".log"))
        assert (code, output.count("baseOffset"), errors) == (0, batches, "")


def test_every_other_file_of_a_partition_is_printed(directory: Path) -> None:
    code, output, errors = run("dump", *(last(directory, suffix) for suffix in (".snapshot", "-checkpoint")))
    assert (code, errors) == (0, "")
    assert "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty" in output
    assert "logStartOffset: 0 recoveryPoint: 120 cleanedEndOffset: 0 isSparse: false\n" in output
    assert run("dump", directory / "leader-epoch-checkpoint")[1].endswith("leaderEpoch: 4 startOffset: 0\n")
    assert "offset: " in run("dump", first(directory, ".index"))[1]
    assert "timestamp: " in run("dump", first(directory, ".timeindex"))[1]


def test_programs_get_an_object_a_line(directory: Path) -> None:
    files = [path for path in sorted(directory.iterdir()) if path.suffix != ".earlier"]
    code, output, errors = run("dump", "--print-data-log", "--output", "json", *files)
    assert (code, errors) == (0, "")
    found = json_lines(output)
    assert {each["type"] for each in found} == {
        *("log", "batch", "record", "index_entry", "time_index_entry"),
        *("producer", "leader_epoch", "log_checkpoint"),
    }
    records = [each for each in found if each["type"] == "record"]
    assert len(records) == 120
    assert records[1]["key"] == "key\x1b[2J"
    assert records[1]["value"] == {"base64": "/yBzZWNvbmQK"}
    assert records[1]["headers"] == [{"key": "trace", "value": "\x01"}, {"key": "trace", "value": None}]
    assert sum(each["is_valid"] for each in found if each["type"] == "batch") == 40
    assert sum(len(each["batches"]) for each in found if each["type"] == "producer") > 0


def test_what_comes_before_a_broken_batch_is_printed_and_then_what_is_wrong(directory: Path) -> None:
    file = first(directory, ".log")
    data = bytearray(file.read_bytes())
    end = len(batch(0)) + len(batch(1))
    struct.pack_into(">i", data, end + 8, 5)
    file.write_bytes(data)
    code, output, errors = run("dump", file)
    assert (code, output.count("baseOffset")) == (1, 2)
    assert output.endswith(f"Found {len(data) - end} invalid bytes at the end of {file.name}\n")
    assert errors == f"kraft: {file} at byte {end}: a batch claims a length of 5 bytes\n"
    *_, trailing, error = json_lines(run("dump", "--output", "json", file)[1])
    assert trailing == {"file": str(file), "type": "trailing_bytes", "count": len(data) - end}
    assert (error["type"], error["position"]) == ("error", end)


def test_behind_a_wrong_checksum_the_next_batches_are_printed(directory: Path) -> None:
    file = first(directory, ".log")
    data = bytearray(file.read_bytes())
    data[len(batch(0)) + 70] ^= 4
    file.write_bytes(data)
    code, output, errors = run("dump", "--deep-iteration", file)
    assert (code, output.count("isvalid: false")) == (1, 1)
    assert output.count("isvalid: true") > 5
    assert errors.startswith(f"kraft: {file} at byte {len(batch(0))}: the checksum of a batch is ")
    assert errors.count("\n") == 1


def test_an_index_is_compared_with_its_log(directory: Path) -> None:
    index, times = first(directory, ".index"), first(directory, ".timeindex")
    for file, width in ((index, 8), (times, 12)):
        sound = file.read_bytes()
        assert run("dump", "--verify-index-only", file) == (0, f"Dumping {file}\n", "")
        data = bytearray(sound)
        data[width - 1] += 1
        file.write_bytes(data)
        code, _, errors = run("dump", file)
        assert (code, errors.count("\n")) == (1, 1)
        assert f"{file} at byte 0: the entry names " in errors
        file.write_bytes(sound)


def test_the_sanity_of_an_index_needs_no_log(directory: Path) -> None:
    for file, width in ((first(directory, ".index"), 8), (first(directory, ".timeindex"), 12)):
        file.with_suffix(".log").unlink(missing_ok=True)
        assert run("dump", "--index-sanity-check", file) == (0, f"Dumping {file}\n{file} passed sanity check.\n", "")
        data = file.read_bytes()
        assert len(data) >= 2 * width
        file.write_bytes(data[width : 2 * width] + data[:width])
        code, output, errors = run("dump", "--index-sanity-check", file)
        assert (code, output) == (1, f"Dumping {file}\n")
        assert "does not ascend from" in errors
        file.write_bytes(data + b"x")
        assert "1 bytes at the end are not a whole entry" in run("dump", "--index-sanity-check", file)[2]


def test_an_index_without_its_log_is_one_line(directory: Path) -> None:
    index = first(directory, ".index")
    index.with_suffix(".log").unlink()
    code, output, errors = run("dump", index)
    assert (code, errors) == (1, f"kraft: {index.with_suffix('.log')}: No such file or directory\n")
    assert "offset: " in output


@pytest.mark.parametrize("name", [".snapshot", "leader-epoch-checkpoint", "log-checkpoint"])
def test_a_broken_small_file_is_one_line(directory: Path, name: str) -> None:
    file = last(directory, name)
    file.write_bytes(file.read_bytes()[:-2] + b"!!")
    code, _, errors = run("dump", file)
    assert (code, errors.count("\n")) == (1, 1)
    assert errors.startswith(f"kraft: {file} at byte 0: ")


def test_one_bad_file_does_not_keep_the_others_from_being_printed(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not of a partition")
    missing = [tmp_path / "00000000000000000000.log", tmp_path / "missing"]
    code, output, errors = run("dump", *missing, other, tmp_path, first(directory, ".log"))
    assert code == 1
    unknown = "this kind of file cannot be printed: name one of a partition, such as 00000000000000000000.log"
    assert errors.splitlines() == [
        *(f"kraft: {each}: No such file or directory" for each in missing),
        f"kraft: {other}: {unknown}",
        f"kraft: {tmp_path}: {unknown}",
    ]
    assert "baseOffset: 0" in output


def test_files_that_come_or_go_are_read_as_what_they_are(directory: Path) -> None:
    log, index = first(directory, ".log"), first(directory, ".index")
    expected = run("dump", log)[1].splitlines()[1:], run("dump", index)[1].splitlines()[1:]
    gone = [file.rename(f"{file}.deleted") for file in (log, index)]
    assert tuple(run("dump", file)[1].splitlines()[1:] for file in gone) == expected
    swap = gone[0].rename(directory / "00000000000000000000.00000000000000000009.swap")
    assert run("dump", swap)[1].splitlines()[1:] == expected[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--offsets-decoder"], "--offsets-decoder is not supported yet"),
        (["--cluster-metadata-decoder"], "--cluster-metadata-decoder is not supported yet"),
        (["--remote-log-metadata-decoder"], "--remote-log-metadata-decoder is not supported yet"),
        (["--share-group-state-decoder"], "--share-group-state-decoder is not supported yet"),
        (["--value-decoder-class", "my.Own"], "--value-decoder-class my.Own is not supported: use "),
        (["--key-decoder-class", "my.Own"], "--key-decoder-class my.Own is not supported: use "),
    ],
)
def test_decoders_that_are_not_supported_are_one_line(directory: Path, flags: list[str], expected: str) -> None:
    code, output, errors = run("dump", *flags, first(directory, ".log"))
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert errors.startswith(f"kraft: {expected}")


def test_kafkas_decoder_of_text_prints_contents(directory: Path) -> None:
    file = first(directory, ".log")
    decoder = "org.apache.kafka.tools.api.StringDecoder"
    assert run("dump", "--value-decoder-class", decoder, file) == run("dump", "--print-data-log", file)


def test_no_file_is_a_usage_error() -> None:
    code, _, errors = run("dump")
    assert code == 2
    assert "no file is given: name one" in errors


# --- kraft log verify ------------------------------------------------------------------------------------------------


def test_a_sound_partition_has_no_faults(directory: Path) -> None:
    code, output, errors = run("verify", directory)
    assert (code, errors) == (0, "")
    assert output.startswith("no faults: 1 partition, ")
    assert re.search(r", 40 batches, 120 records, [0-9.]+ KiB$", output)


def test_a_log_directory_is_verified_with_every_partition_in_it(directory: Path) -> None:
    write_log(directory.with_name("orders-1"), TopicPartition("orders", 1))
    (directory.parent / "notes-x").mkdir()
    (directory.parent / "meta.properties").write_text("version=1\n")
    code, output, _ = run("verify", f"{directory.parent}/", "--output", "json")
    found = json.loads(output)
    assert (code, found["is_well"], found["findings"]) == (0, True, [])
    assert [each["directory"] for each in found["partitions"]] == [str(directory), str(directory.with_name("orders-1"))]
    assert (found["batches"], found["records"]) == (80, 240)
    assert found["partitions"][1]["log_end_offset"] == 120


def test_what_is_wrong_is_in_a_table_with_file_and_place(directory: Path) -> None:
    file = last(directory, ".log")
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    code, output, _ = run("verify", directory)
    lines = output.splitlines()
    assert code == 1
    assert lines[0].split() == ["File", "Byte", "Kind", "Reason"]
    assert lines[1].split()[:3] == [str(file), "0", "FAULT"]
    assert "the checksum of a batch is" in lines[1]
    assert lines[-1].startswith("1 fault: ")
    (finding,) = json.loads(run("verify", directory, "--output", "json")[1])["findings"]
    assert (finding["file"], finding["position"], finding["severity"]) == (str(file), 0, "fault")


def test_an_unfinished_end_is_a_note_until_the_node_has_stopped_in_order(directory: Path) -> None:
    file = last(directory, ".log")
    size = file.stat().st_size
    file.write_bytes(file.read_bytes() + batch(40)[:-5])
    code, output, _ = run("verify", directory)
    assert code == 0
    assert f"{size}  note" in output
    assert "no faults" in output
    (directory.parent / ".kraft_cleanshutdown").write_text("version=1\n")
    assert run("verify", directory)[0] == 1
    assert run("verify", directory.parent)[0] == 1


def test_a_log_that_ends_below_what_was_committed_is_a_fault(directory: Path) -> None:
    disk = RealDisk()
    write_high_watermarks(disk, as_log_directory(directory.parent), {ORDERS: Offset(120)})
    assert run("verify", directory)[0] == 0
    write_high_watermarks(disk, as_log_directory(directory.parent), {ORDERS: Offset(121)})
    for path in (directory, directory.parent):
        code, output, _ = run("verify", path)
        assert code == 1
        assert "the high watermark of orders-0 is 121, but its log ends at 120" in output


def test_shallow_reads_checksums_only(directory: Path) -> None:
    assert run("verify", "--shallow", directory) == run("verify", directory)


def test_files_that_may_only_be_read_are_verified_and_stay_what_they_are(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.iterdir()}
    for path in directory.iterdir():
        path.chmod(0o400)
    assert run("verify", directory)[0] == 0
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes replaced, the end cut off or noise behind it."""
    copy = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        if copy:
            copy[chance.randrange(len(copy))] = chance.choice((0, 0x7F, 0xFF, chance.randrange(256)))
    end = chance.choice((len(copy), chance.randrange(len(copy) + 1)))
    return bytes(copy[:end]) + chance.choice((b"", chance.randbytes(chance.randrange(100))))


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", "-checkpoint"])
def test_no_damage_ends_in_anything_but_lines(directory: Path, suffix: str) -> None:
    chance = random.Random(suffix)
    for file in directory.glob(f"*{suffix}"):
        sound = file.read_bytes()
        for _ in range(8):
            file.write_bytes(damaged(sound, chance))
            for arguments in (("dump", "--print-data-log", file), ("dump", "--index-sanity-check", file)):
                code, _, errors = run(*arguments)
                assert (code == 0) == all("is followed by" in line for line in errors.splitlines())
            assert run("verify", directory)[0] in (0, 1)
        file.write_bytes(sound)
    assert run("verify", directory)[0] == 0


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_directory_without_partitions_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    code, output, errors = run("verify", tmp_path / name)
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert errors.startswith(f"kraft: {tmp_path / name}: ")


def test_both_commands_are_part_of_kraft() -> None:
    result = CliRunner().invoke(application(["log"]), ["log", "--help"])
    assert result.exit_code == 0
    assert "dump" in result.stdout
    assert "verify" in result.stdout
