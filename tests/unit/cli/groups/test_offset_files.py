from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kraft.cli.groups.offset_files import GroupOffsets, offset_lines, read_offsets
from kraft.model.ids import TopicPartition

A0, B2 = TopicPartition("a", 0), TopicPartition("b", 2)


def written(directory: Path, text: str) -> Path:
    path = directory / "offsets.csv"
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    return path


def test_kafkas_own_files_are_read(tmp_path: Path) -> None:
    one = written(tmp_path, "a,0,3\nb,2,0\n")
    assert read_offsets(one, ["g"]) == {"g": {A0: 3, B2: 0}}
    several = written(tmp_path, 'g,a,0,3\r\n"h, i",b,2,9223372036854775807\r\n\r\ng,b,2,4\r\nother,a,0,1')
    assert read_offsets(several, ["g", "h, i"]) == {"g": {A0: 3, B2: 4}, "h, i": {B2: (1 << 63) - 1}}
    assert read_offsets(several, ["other"]) == {"other": {A0: 1}}


@pytest.mark.parametrize(
    "offsets",
    [{"g": {A0: 3, B2: 0}}, {"g": {A0: 3}, "h, i": {B2: 7}}, {'a "quoted"\nname': {A0: 3}, "h": {A0: 1}}],
)
def test_what_is_exported_is_read_back(tmp_path: Path, offsets: GroupOffsets) -> None:
    assert read_offsets(written(tmp_path, offset_lines(offsets)), list(offsets)) == offsets


def test_a_file_of_one_group_does_not_name_it() -> None:
    assert offset_lines({"g": {B2: 0, A0: 3}}) == "a,0,3\nb,2,0\n"
    assert offset_lines({"g": {A0: 3}, "h": {A0: 1}}) == "g,a,0,3\nh,a,0,1\n"


@pytest.mark.parametrize(
    ("text", "group_ids", "reason"),
    [
        ("\n", ["g"], "is empty$"),
        ("h,a,0,1\n", ["g"], "names no offset of group 'g'"),
        ("a,0,1\n", ["g", "h"], "line 1 names no group: expected group,topic,partition,offset"),
        ("a,0\n", ["g"], r"line 1: expected \[group,\]topic,partition,offset"),
        ("a,0,1\nx,g,a,0,1\n", ["g"], "line 2: expected"),
        ("a,0,-1\n", ["g"], "line 1: '-1' is not an offset"),
        ("a,0,9223372036854775808\n", ["g"], "is not an offset"),
        ("a,0," + "9" * 10_000, ["g"], "is not an offset"),
        ("a,zero,1\n", ["g"], "'zero' is not a partition"),
        ("a,0,1\na,0,2\n", ["g"], "line 2 names a-0 of group 'g' again"),
        ('a,0,"1\n', ["g"], "unexpected end of data"),
        ("\udcff,0,1", ["g"], "is not a text in UTF-8"),
    ],
)
def test_any_other_file_is_one_line_that_says_what_is_wrong(
    tmp_path: Path, text: str, group_ids: list[str], reason: str
) -> None:
    with pytest.raises(typer.BadParameter, match=reason) as caught:
        read_offsets(written(tmp_path, text), group_ids)
    assert "offsets.csv" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"nothing\.csv cannot be read"):
        read_offsets(tmp_path / "nothing.csv", ["g"])
