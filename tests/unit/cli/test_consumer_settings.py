from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kraft.cli.consumer_settings import consumer_settings
from kraft.cli.options import DEFAULT_BOOTSTRAP_SERVER


def written(directory: Path, *lines: str) -> Path:
    path = directory / "consumer.properties"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def settings_of(
    file: Path | None = None, server: str = "broker:9094", group: str | None = None, *, from_beginning: bool = False
) -> dict[str, object]:
    settings = consumer_settings(file, server, group, from_beginning=from_beginning)
    del settings["bootstrap_refused_timeout_ms"]
    return settings


def test_a_file_adds_settings_and_replaces_those_of_the_command(tmp_path: Path) -> None:
    assert settings_of() == {"bootstrap_servers": "broker:9094", "default_api_timeout_ms": 10_000}
    file = written(
        tmp_path, "# for the nightly job", "fetch.min.bytes = 5", "default.api.timeout.ms=7", "client_id=job"
    )
    assert settings_of(file) == {
        "bootstrap_servers": "broker:9094",
        "default_api_timeout_ms": "7",
        "fetch_min_bytes": "5",
        "client_id": "job",
    }


def test_brokers_of_the_file_are_used_unless_the_option_names_others(tmp_path: Path) -> None:
    file = written(tmp_path, "bootstrap.servers=file:9094")
    assert settings_of(file, DEFAULT_BOOTSTRAP_SERVER)["bootstrap_servers"] == "file:9094"
    assert settings_of(file, "option:9094")["bootstrap_servers"] == "option:9094"
    assert settings_of(None, DEFAULT_BOOTSTRAP_SERVER)["bootstrap_servers"] == DEFAULT_BOOTSTRAP_SERVER


def test_the_group_is_that_of_the_option_or_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "group.id=billing")
    assert "group_id" not in settings_of()
    assert settings_of(group="billing")["group_id"] == "billing"
    assert settings_of(file)["group_id"] == "billing"
    assert settings_of(file, group="billing")["group_id"] == "billing"
    with pytest.raises(typer.BadParameter, match=r"'audit' is not group\.id=billing of .*consumer\.properties"):
        settings_of(file, group="audit")


def test_options_go_before_properties_and_these_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "isolation.level=read_uncommitted", "fetch.min.bytes=5", "client.id=job")
    settings = consumer_settings(
        file,
        "broker:9094",
        None,
        from_beginning=False,
        properties=["fetch.min.bytes=6", "isolation.level=read_uncommitted"],
        isolation_level="read_committed",
    )
    assert (settings["isolation_level"], settings["fetch_min_bytes"]) == ("read_committed", "6")
    assert settings["client_id"] == "job"
    with pytest.raises(typer.BadParameter, match=r"'a' is not group\.id=b of --consumer-property: name one group"):
        consumer_settings(file, "broker:9094", "a", from_beginning=False, properties=["group.id=b"])


def test_from_the_beginning_means_the_earliest_offset_where_none_is_committed(tmp_path: Path) -> None:
    assert settings_of(from_beginning=True)["auto_offset_reset"] == "earliest"
    for word in ("earliest", "smallest"):
        file = written(tmp_path, f"auto.offset.reset={word}")
        assert settings_of(file, from_beginning=True)["auto_offset_reset"] == "earliest"
    with pytest.raises(typer.BadParameter, match=r"cannot be used with auto\.offset\.reset=latest"):
        settings_of(written(tmp_path, "auto.offset.reset=latest"), from_beginning=True)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["a=\\u12"], "consumer.properties:1: "),
        (["a.b=1", "", "a_b=2"], "consumer.properties:3: a_b is set twice"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        settings_of(written(tmp_path, *lines))
    assert reason in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"nothing\.properties cannot be read"):
        settings_of(tmp_path / "nothing.properties")
