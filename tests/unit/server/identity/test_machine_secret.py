from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.server.identity import machine_secret
from kraft.server.identity.cluster_secrets import read_secrets
from kraft.server.identity.machine_secret import NoPlaceForSecret

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_the_first_to_need_the_secret_makes_it_and_the_others_find_it(environment: dict[str, str]) -> None:
    first = machine_secret.find_or_create(CLUSTER, environment)
    content = first.path.read_bytes()
    again = machine_secret.find_or_create(CLUSTER, environment)
    assert (first.created, again.created, again.path) == (True, False, first.path)
    assert again.path.read_bytes() == content
    assert read_secrets(first.path).primary == read_secrets(again.path).primary


def test_nobody_else_can_read_the_secret_or_its_directory(environment: dict[str, str]) -> None:
    path = machine_secret.find_or_create(CLUSTER, environment).path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == [f"{CLUSTER}.secret"], "no draft is left"


def test_each_cluster_has_a_secret_of_its_own(environment: dict[str, str]) -> None:
    one, other = (machine_secret.find_or_create(name, environment).path for name in (CLUSTER, CLUSTER[::-1]))
    assert one.read_bytes() != other.read_bytes()


def test_of_nodes_that_start_at_once_one_makes_the_secret(tmp_path: Path) -> None:
    def start(path: Path) -> tuple[bool, bytes]:
        return machine_secret.write_new(path), path.read_bytes()

    for number in range(50):
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(start, [tmp_path / str(number)] * 8))
        assert sum(created for created, _ in made) == 1
        assert len({content for _, content in made}) == 1


def test_a_relative_state_directory_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".local" / "state" / "kraft" / f"{CLUSTER}.secret"
    assert machine_secret.path_of(CLUSTER, {}) == expected
    assert machine_secret.path_of(CLUSTER, {"XDG_STATE_HOME": "state"}) == expected


def test_a_place_that_cannot_be_written_to_is_named_with_the_remedy() -> None:
    with pytest.raises(NoPlaceForSecret) as refused:
        machine_secret.find_or_create(CLUSTER, {"XDG_STATE_HOME": "/dev/null"})
    message = str(refused.value)
    assert "(/dev/null/kraft: Not a directory)" in message
    assert message.endswith("and set cluster.secret.file=FILE on every node")
    assert "\n" not in message
