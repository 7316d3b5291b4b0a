from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kraft.cli.storage import app
from kraft.model.ids import uuid_from_text

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
        f"controller.quorum.voters=1@localhost:9093,2@localhost:9193\nlog.dirs={tmp_path / 'data'}\n"
    )
    return file


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_format_says_what_it_did_and_what_it_did_not(config: Path, tmp_path: Path) -> None:
    secret = tmp_path / "state" / "kraft" / f"{CLUSTER}.secret"
    expected = (
        f"{tmp_path / 'data'}: {{}}: node 1 of cluster {CLUSTER}\n"
        f"{secret}: cluster secret {{}}: this user's nodes on this machine share it\n"
    )
    first, again = ("formatted", "created"), ("already formatted, nothing changed", "already exists")
    assert run("format", "-c", config, "--cluster-id", CLUSTER) == (0, expected.format(*first), "")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert run("format", "--config", config, "-t", CLUSTER) == (0, expected.format(*again), "")


def test_a_standalone_node_is_the_only_controller_of_its_file(config: Path) -> None:
    code, _, error = run("format", "--standalone", "-c", config, "-t", CLUSTER)
    assert (code, "names other" in error) == (2, True)
    config.write_text(config.read_text().replace(",2@localhost:9193", ""))
    assert run("format", "--standalone", "-c", config, "-t", CLUSTER)[0] == 0


def test_format_makes_no_secret_beside_one_that_the_configuration_names(config: Path, tmp_path: Path) -> None:
    config.write_text(f"{config.read_text()}cluster.secret.file={tmp_path / 'secret'}\n")
    assert run("format", "-c", config, "-t", CLUSTER)[1].count("\n") == 1
    assert not (tmp_path / "state").exists()


def test_no_place_for_the_secret_is_one_line_unless_the_node_is_alone(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    code, _, error = run("format", "-c", config, "-t", CLUSTER)
    assert (code, error.count("\n")) == (1, 1)
    assert "and set cluster.secret.file=FILE on every node" in error
    config.write_text(config.read_text().replace(",2@localhost:9193", ""))
    assert run("format", "-c", config, "-t", CLUSTER)[0] == 0


@pytest.mark.parametrize(
    ("cluster_id", "expected"),
    [
        ([], "has no cluster.id: add the id of the cluster, or use --cluster-id"),
        (["-t", "mine"], "--cluster-id mine: expected an id of 22 base64 characters"),
    ],
)
def test_a_missing_or_malformed_cluster_id_is_one_line(config: Path, cluster_id: list[str], expected: str) -> None:
    code, output, error = run("format", "-c", config, *cluster_id)
    assert (code, output, error.count("\n")) == (1, "", 1)
    assert error.startswith("kraft: ")
    assert expected in error


def test_a_directory_of_another_cluster_is_one_line(config: Path) -> None:
    run("format", "-c", config, "-t", CLUSTER)
    code, _, error = run("format", "-c", config, "-t", "AAAAAAAAAAAAAAAAAAAAAg")
    assert (code, error.count("\n")) == (1, 1)
    assert f"belongs to cluster {CLUSTER}, not to AAAAAAAAAAAAAAAAAAAAAg" in error


def test_a_wrong_configuration_is_one_line(config: Path) -> None:
    config.write_text(config.read_text() + "num.partitions=none\n")
    code, _, error = run("format", "-c", config, "-t", CLUSTER)
    assert (code, error) == (1, f"kraft: {config}:6: num.partitions=none: expected a whole number from 1 to 10000\n")


def test_random_uuid_prints_an_id_that_format_takes(config: Path) -> None:
    code, output, _ = run("random-uuid")
    assert code == 0
    uuid_from_text(output.strip())
    assert run("format", "-c", config, "-t", output.strip())[0] == 0


def test_the_directories_of_all_processes_are_formatted_in_the_cluster_of_the_first(
    config: Path, tmp_path: Path
) -> None:
    assert run("format", "-c", config, "-t", CLUSTER)[0] == 0
    config.write_text(f"{config.read_text()}node.processes=2\n")
    code, output, _ = run("format", "-c", config)
    assert code == 0
    assert output.splitlines()[:2] == [
        f"{tmp_path / 'data'}: already formatted, nothing changed: node 1 of cluster {CLUSTER}",
        f"{tmp_path / 'data' / 'node.1001'}: formatted: node 1001 of cluster {CLUSTER}",
    ]
