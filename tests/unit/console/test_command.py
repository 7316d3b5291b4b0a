"""`kraft console` before it serves: what is wrong with its file, or missing on this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kraft.cli import console as command
from tests.unit.cli.shell import Shell


@pytest.fixture(name="kraft")
def _kraft(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Shell:
    return Shell(monkeypatch, capfdbinary, tmp_path)


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "console.properties"


def test_every_problem_of_the_file_is_a_line(kraft: Shell, file: Path) -> None:
    file.write_text("clusters=prod\ncolour=red\n")
    assert kraft.run("console", "-c", str(file)) == 1
    missing, unknown = kraft.err.splitlines()
    assert missing.startswith(f"kraft: {file}: cluster.prod.bootstrap.servers is missing")
    assert unknown.startswith(f"kraft: {file}: colour is not known")


def test_without_the_extra_it_says_what_to_install(kraft: Shell, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    file.write_text("clusters=prod\n")
    assert kraft.run("console", "-c", str(file)) == 1
    expected = "kraft: the console is not installed: pip install 'kraft-broker[console]'\n"
    assert kraft.err == expected
    assert kraft.run("dev", "--console") == 1
    assert kraft.err == expected


@pytest.mark.usefixtures("own_logging")
def test_a_port_that_is_taken_is_one_line(kraft: Shell, file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(
            f"listeners=HTTP://127.0.0.1:{port}\nclusters=dev\ncluster.dev.bootstrap.servers=localhost:9094\n"
        )
        assert kraft.run("console", "-c", str(file)) == 1
    (line,) = kraft.err.splitlines()
    assert line == (
        f"kraft: listeners: the console cannot listen at http://127.0.0.1:{port}: Address already in use: "
        "set listeners to another port, or end what listens there"
    )


def test_a_file_that_is_not_there_is_one_line(kraft: Shell, file: Path) -> None:
    assert kraft.run("console", "-c", str(file)) == 2
    assert f"{file} cannot be read: No such file or directory" in kraft.err
