from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.rpc.introductions import ClusterSecrets
from kraft.server.config.loading import load
from kraft.server.identity.cluster_secrets import WatchedSecrets, read_secrets
from tests.unit.server.identity.refused_files import SECRET, refusal

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
NEW = SECRET[::-1]

pytestmark = pytest.mark.real_time


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text(SECRET + "\n")
    return path


def test_a_secret_is_the_same_with_or_without_the_end_of_its_line(secret_file: Path) -> None:
    known = read_secrets(secret_file).primary
    secret_file.write_text(f"\n  {SECRET}\r\n\n")
    assert read_secrets(secret_file).primary == known


def test_the_first_secret_is_spoken_and_the_others_are_understood(secret_file: Path) -> None:
    old = read_secrets(secret_file).primary
    secret_file.write_text(f"{SECRET[::-1]}\n{SECRET}\n")
    both = read_secrets(secret_file)
    assert both.primary != old
    assert both.find(old.secret_id) == old


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_secret_that_others_can_read_is_refused(secret_file: Path, mode: int) -> None:
    secret_file.chmod(mode)
    line = refusal(lambda: read_secrets(secret_file))
    assert line == (
        f"cluster.secret.file: {secret_file} can be read by others (mode {mode:04o}): chmod 600 {secret_file}"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty: create one with (umask 077; openssl rand -base64 32 > FILE) and copy it to every node"),
        ("too short\n", "has a secret of fewer than 32 characters: create one with"),
        (f"{SECRET}\nshort\n", "fewer than 32 characters"),
        (f"{SECRET}\n" * 5, "has more than 4 secrets"),
    ],
)
def test_a_file_that_is_no_secret_is_refused(secret_file: Path, content: str, expected: str) -> None:
    secret_file.write_text(content)
    assert expected in refusal(lambda: read_secrets(secret_file))


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(lambda: read_secrets(tmp_path / "none")) == (
        f"cluster.secret.file: {tmp_path}/none does not exist: create one with (umask 077; openssl rand -base64 32 >"
        " FILE) and copy it to every node"
    )
    assert refusal(lambda: read_secrets(tmp_path)) == f"cluster.secret.file: {tmp_path} is a directory: name a file"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionError(13, "Permission denied"), "(uid {uid}): chown it to that user, who also has to be let into"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error): name another file"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_with_the_remedy(
    secret_file: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, remedy: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    for call in ("stat", "open"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, call, fail)
            said = refusal(lambda: read_secrets(secret_file))
        assert said.startswith(f"cluster.secret.file: {secret_file} cannot be read")
        assert remedy.format(uid=os.geteuid()) in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_secret_of_another_user_is_refused(secret_file: Path) -> None:
    os.chown(secret_file, 12_345, -1)
    assert "belongs to another user (uid 12345)" in refusal(lambda: read_secrets(secret_file))


# --- a file that changes -----------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path, secret_file: Path) -> WatchedSecrets:
    """The secrets of a node with `secret_file`."""
    settings = {"cluster.secret.file": str(secret_file)}
    plan = NodePlan(node_id=1, grpc_port=9001, controller_port=9101, settings=settings)
    cluster_files.write(tmp_path, [plan], CLUSTER)
    return WatchedSecrets(load(cluster_files.config_file(tmp_path, 1)), CLUSTER)


def known(watched: WatchedSecrets) -> ClusterSecrets:
    assert watched.secrets is not None
    return watched.secrets


def write(file: Path, text: str) -> None:
    file.write_text(text)


def allow(file: Path, mode: int) -> None:
    file.chmod(mode)


async def test_a_changed_file_replaces_the_secrets_that_others_hold(watched: WatchedSecrets, secret_file: Path) -> None:
    held, old, new = known(watched), ClusterSecrets([SECRET.encode()]).primary, ClusterSecrets([NEW.encode()]).primary
    for text, expected in (
        (f"{SECRET}\n{NEW}\n", [old, new]),
        (f"{NEW}\n{SECRET}\n", [new, old]),
        (f"{NEW}\n", [new]),
    ):
        write(secret_file, text)
        with capture_logs() as lines:
            await watched.check()
            await watched.check()
        assert held.known == expected
        ids = [secret.secret_id.hex() for secret in expected]
        assert [(line["event"], line["secret_ids"]) for line in lines] == [("cluster secrets renewed", ids)]
        assert SECRET not in str(lines)
    assert held.find(old.secret_id) is None
    assert held.generation == 3


async def test_a_file_that_is_written_again_with_the_same_secrets_changes_nothing(
    watched: WatchedSecrets, secret_file: Path
) -> None:
    write(secret_file, f"\n{SECRET}\n")
    with capture_logs() as lines:
        await watched.check()
    assert (known(watched).generation, lines) == (0, [])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda file: file.write_text(""), "is empty"),
        (lambda file: file.write_text(f"{SECRET}\nhalf of a"), "fewer than 32 characters"),
        (lambda file: file.unlink(), "does not exist"),
        (lambda file: file.touch() or file.chmod(0o644), "can be read by others"),
    ],
    ids=["empty", "half written", "gone", "open to others"],
)
async def test_a_file_that_cannot_be_used_is_logged_once_and_the_secrets_stay(
    watched: WatchedSecrets, secret_file: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    before = known(watched).known
    spoil(secret_file)
    with capture_logs() as lines:
        await watched.check()
        await watched.check()
    assert known(watched).known is before
    (line,) = lines
    assert line["event"] == "cluster secrets not renewed"
    assert reason in line["reason"]
    assert SECRET not in str(lines)


async def test_a_secret_that_others_could_read_is_used_once_they_cannot(
    watched: WatchedSecrets, secret_file: Path
) -> None:
    write(secret_file, f"{NEW}\n")
    for mode in (0o644, 0o600):
        allow(secret_file, mode)
        await watched.check()
    assert known(watched).known == ClusterSecrets([NEW.encode()]).known
