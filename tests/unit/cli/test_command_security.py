"""Commands whose client a broker does not accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.client import AuthenticationFailed
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


@pytest.mark.parametrize("lacks_settings", [False, True])
def test_a_command_that_lacks_settings_of_security_says_where_they_go(
    kraft: Shell, cluster: FakeCluster, lacks_settings: bool
) -> None:
    error = AuthenticationFailed(ErrorCode.ILLEGAL_SASL_STATE, "it requires a login", lacks_settings=lacks_settings)
    cluster.brokers[1].reject(error)
    first, *more = kraft.fail("topics", "list").splitlines()
    assert first == "kraft: ILLEGAL_SASL_STATE: it requires a login"
    where = "kraft: Settings of security, such as security.protocol, go into a file: give it as --command-config FILE"
    assert more == ([where] if lacks_settings else [])


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize(
    ("command", "runs", "content", "more"),
    [
        (
            ["sink"],
            "kraft.sink.running.run",
            "bootstrap.servers=b:1\ntopics=a\ngroup.id=g\nconnection.url=http://e\nindex=i\nerrors.deadletterqueue.topic.name=d",
            [],
        ),
        (
            ["mirror", "start"],
            "kraft.mirror.worker.run",
            "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n",
            ["kraft: That is cluster B, whose keys begin with B."],
        ),
    ],
)
def test_a_command_with_a_file_of_its_own_says_that_they_go_there(
    kraft: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    runs: str,
    content: str,
    more: list[str],
) -> None:
    def refused(*_: object) -> None:
        raise AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "b:1: it has TLS", lacks_settings=True)

    monkeypatch.setattr(runs, refused)
    file = tmp_path / "file.properties"
    file.write_text(content)
    assert kraft.run(*command, "-c", str(file)) == 1
    assert kraft.err.splitlines() == [
        "kraft: b:1: it has TLS",
        *more,
        f"kraft: Settings of security, such as security.protocol, go into {file}",
    ]


PLAIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=anna\n"


@pytest.mark.parametrize(
    ("settings", "mode", "is_said"),
    [
        ("sasl.password=secret\n", 0o644, True),
        ("sasl.password=secret\n", 0o600, False),
        ("sasl_password=secret\n", 0o640, True),
        ("ssl.keystore.password=secret\n", 0o604, True),
        ("client.id=loader\n", 0o644, False),
    ],
)
def test_a_file_with_a_password_that_others_can_read_is_said_to_be(
    kraft: Shell, tmp_path: Path, settings: str, mode: int, is_said: bool
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(PLAIN + settings)
    file.chmod(mode)
    kraft.run("topics", "list", "--bootstrap-server", "broker-1:9094", "--command-config", str(file))
    assert (f"kraft: {file} can be read by others (mode {mode:04o}): chmod 600 {file}\n" in kraft.err) is is_said
