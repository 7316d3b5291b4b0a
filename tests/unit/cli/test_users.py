"""`kraft users`, whose words are for people that type a name or a file wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.metadata.user_decisions import NUMBERS
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.sasl.scram import ScramMechanism
from kraft.wire.schema.describe_user_scram_credentials import CredentialInfo, DescribeUserScramCredentialsResult
from tests.support.acl_entries import entry
from tests.unit.cli.shell import Shell

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


class FakeUsers:
    """An admin client of a cluster that has these passwords."""

    def __init__(self) -> None:
        self.passwords: dict[str, dict[str, str]] = {"alice": {SHA_256.value: "a"}}
        self.configs = {"authorizer.class.name": "", "super.users": ""}
        self.acls: list[AclEntry] = []
        self.shows_configs = True

    def describe_brokers(self) -> list[Any]:
        return [SimpleNamespace(broker_id=1, fenced=False)]

    def describe_broker_configs(self, broker_id: int, **_: object) -> list[Any]:
        if not self.shows_configs:
            raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not authorized")
        return [SimpleNamespace(name=name, value=value) for name, value in self.configs.items()]

    def describe_acls(self, wanted: AclFilter) -> list[AclEntry]:
        return [each for each in self.acls if wanted.matches(each)]

    def describe_users(self, users: Sequence[str] = ()) -> list[DescribeUserScramCredentialsResult]:
        for user in users:
            if user not in self.passwords:
                text = f"Attempt to describe a user credential that does not exist: {user}"
                raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, text)
        numbers = {mechanism.value: number for number, mechanism in NUMBERS.items()}
        return [
            DescribeUserScramCredentialsResult(
                user=user,
                error_code=0,
                error_message=None,
                credential_infos=tuple(CredentialInfo(mechanism=numbers[each], iterations=4_096) for each in of_user),
            )
            for user, of_user in self.passwords.items()
            if user in users or not users
        ]

    def set_password(self, user: str, password: str, mechanism: str) -> None:
        self.passwords.setdefault(user, {})[mechanism] = password

    def delete_password(self, user: str, mechanism: str) -> None:
        del self.passwords[user][mechanism]
        if not self.passwords[user]:
            del self.passwords[user]


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> FakeUsers:
    known = FakeUsers()

    @contextmanager
    def opened(*_: object) -> Iterator[FakeUsers]:
        yield known

    monkeypatch.setattr("kraft.cli.users.open_admin", opened)
    return known


def secret(tmp_path: Path, content: bytes = b"s3cret\nsecond line\n", mode: int = 0o600) -> Path:
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_users_are_made_listed_and_deleted(kraft: Shell, users: FakeUsers, tmp_path: Path) -> None:
    file = str(secret(tmp_path))
    assert kraft.succeed("users", "set-password", "bob", "--password-file", file) == (
        "The password of user 'bob' is set for SCRAM-SHA-256 and SCRAM-SHA-512\n"
    )
    assert kraft.err == ""
    assert users.passwords["bob"] == {SHA_256.value: "s3cret", SHA_512.value: "s3cret"}
    assert [line.split()[0] for line in kraft.succeed("users", "list").splitlines()] == ["User", "alice", "bob"]
    assert kraft.succeed("users", "delete", "bob", "--mechanism", "SCRAM-SHA-256") == (
        "The SCRAM-SHA-256 password of user 'bob' is deleted\n"
    )
    assert kraft.succeed("users", "delete", "bob") == "User 'bob' is deleted\n"
    assert list(users.passwords) == ["alice"]


def test_what_is_not_there_to_be_deleted_is_named(kraft: Shell, users: FakeUsers) -> None:
    assert kraft.fail("users", "delete", "carol") == "kraft: there is no user 'carol': see kraft users list\n"
    assert kraft.fail("users", "delete", "alice", "--mechanism", "SCRAM-SHA-512") == (
        "kraft: user 'alice' has no password for SCRAM-SHA-512: see kraft users list\n"
    )
    assert list(users.passwords) == ["alice"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_password_that_others_can_read_is_warned_of(
    kraft: Shell, users: FakeUsers, tmp_path: Path, mode: int
) -> None:
    file = secret(tmp_path, mode=mode)
    kraft.succeed("users", "set-password", "bob", "--password-file", str(file))
    assert kraft.err == f"kraft: {file} can be read by others (mode {mode:04o}): chmod 600 {file}\n"
    assert "bob" in users.passwords


@pytest.mark.usefixtures("users")
def test_a_password_file_that_cannot_be_used_is_named(kraft: Shell, tmp_path: Path) -> None:
    def refused(file: str) -> str:
        assert kraft.run("users", "set-password", "bob", "--password-file", file) == 2
        return kraft.err.splitlines()[-1].removeprefix("Error: Invalid value for --password-file: ")

    assert refused(f"{tmp_path}/none") == f"{tmp_path}/none cannot be read: No such file or directory"
    assert refused(str(tmp_path)) == f"{tmp_path} cannot be read: Is a directory"
    file = str(secret(tmp_path, b"\xffs3cret"))
    assert refused(file) == f"{file} is not UTF-8 text"
    assert refused(str(secret(tmp_path, b"\n"))) == "the password is empty"


def test_the_only_administrator_is_deleted_by_force_only(kraft: Shell, users: FakeUsers) -> None:
    users.configs = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:alice"}
    users.passwords["alice"][SHA_512.value] = "a"
    assert "'alice' is the only administrator, so nobody could change ACLs" in kraft.fail("users", "delete", "alice")
    # She still has the other password.
    kraft.succeed("users", "delete", "alice", "--mechanism", "SCRAM-SHA-512")
    kraft.fail("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256")
    users.shows_configs = False
    assert "give --force to delete it anyway" in kraft.fail("users", "delete", "alice")
    assert users.passwords == {"alice": {SHA_256.value: "a"}}
    kraft.succeed("users", "delete", "alice", "--force")
    assert users.passwords == {}


def test_an_administrator_beside_others_is_deleted(kraft: Shell, users: FakeUsers) -> None:
    users.configs = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:alice"}
    users.acls = [entry("kafka-cluster", Operation.ALTER, principal="User:ops", resource_type=ResourceType.CLUSTER)]
    kraft.succeed("users", "delete", "alice")
    assert users.passwords == {}
