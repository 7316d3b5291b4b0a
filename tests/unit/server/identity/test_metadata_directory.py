from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.server.identity.metadata_directory import METADATA_DIRECTORY, close_to_others


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777])
def test_a_directory_of_an_earlier_version_is_closed(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / METADATA_DIRECTORY
    directory.mkdir()
    directory.chmod(mode)
    with capture_logs() as events:
        close_to_others(tmp_path)
        close_to_others(tmp_path)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [event["event"] for event in events] == ["metadata log closed to other users"]


def test_a_directory_of_another_user_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / METADATA_DIRECTORY).mkdir()
    (tmp_path / METADATA_DIRECTORY).chmod(0o777)

    def refuse(_: Path, __: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    with capture_logs() as events:
        close_to_others(tmp_path)
    assert [(event["event"], event["log_level"]) for event in events] == [
        ("metadata log open to other users", "warning")
    ]


def test_a_new_node_has_none(tmp_path: Path) -> None:
    close_to_others(tmp_path)
    assert list(tmp_path.iterdir()) == []
