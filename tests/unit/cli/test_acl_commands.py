from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kraft.cli import main
from kraft.cli.acls import commands
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.model.access import CLUSTER_NAME, Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from tests.support.acl_entries import DENY, PREFIXED, entry

ANNA = entry(CLUSTER_NAME, Operation.ALTER, principal="User:anna", resource_type=ResourceType.CLUSTER)


class FakeAdmin:
    """An admin client of a cluster with these ACLs."""

    def __init__(self, *entries: AclEntry, super_users: str = "") -> None:
        self.acls = set(entries)
        self._configs = [SimpleNamespace(name="super.users", value=super_users)]
        self.shows_configs = True

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_brokers(self) -> list[Any]:
        return [SimpleNamespace(broker_id=1, fenced=False)]

    def describe_broker_configs(self, broker_id: int, **_: object) -> list[Any]:
        if not self.shows_configs:
            raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not authorized")
        return self._configs

    def describe_acls(self, wanted: AclFilter) -> list[AclEntry]:
        return [each for each in self.acls if wanted.matches(each)]

    def create_acls(self, entries: Iterable[AclEntry]) -> None:
        self.acls |= set(entries)

    def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclEntry]:
        deleted = [each for each in self.acls if any(wanted.matches(each) for wanted in filters)]
        self.acls -= set(deleted)
        return deleted


def run(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin, *arguments: str) -> Result:
    monkeypatch.setattr(commands, "open_admin", lambda *_: admin)
    return CliRunner().invoke(main.application(["acls"]), ["acls", *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("create --topic t", "nobody is given: name a principal"),
        ("create --allow-principal User:a", "no resource is given"),
        ("create --allow-principal a --topic t", "'a' has no kind: write User:a"),
        ("create --allow-principal User:a --topic t --resource-pattern-type any", "is literal or prefixed"),
        ("create --allow-principal User:a --topic t --operation reads", "is not one of all, read"),
        ("create --allow-principal User:a --group g --operation write", "a group has no write: use one of all, read"),
        ("create --allow-principal User:a --topic t --operation cluster-action", "a topic has no cluster-action"),
        ("delete", "no resource is given"),
        ("delete --allow-principal User:a", "no resource is given"),
        ("delete --allow-principal User:a", "for all ACLs of a principal give --principal"),
        ("delete --principal User:a --operation read", "is for all ACLs of a principal"),
        ("delete --principal a", "'a' has no kind"),
        ("delete --topic t --operation read", "nobody is given"),
        ("delete --topic t --producer", "nobody is given"),
        ("list --principal a", "'a' has no kind"),
        ("check --principal a --operation read --topic t", "'a' has no kind"),
        ("check --principal User:a --operation read", "give one resource"),
        ("check --principal User:a --operation read --topic t --topic u", "give one resource"),
    ],
)
def test_options_that_say_too_little_are_refused(monkeypatch: pytest.MonkeyPatch, arguments: str, words: str) -> None:
    admin = FakeAdmin(ANNA)
    refused = run(monkeypatch, admin, *arguments.split())
    assert refused.exit_code == 2
    assert words in " ".join(refused.output.replace("│", " ").split())
    assert admin.acls == {ANNA}


@pytest.mark.parametrize("which", ["--cluster", "--allow-principal User:anna --operation alter --cluster"])
def test_the_last_administrators_rights_are_deleted_by_force_only(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    admin = FakeAdmin(ANNA)
    refused = run(monkeypatch, admin, "delete", *which.split())
    assert refused.exit_code == 1
    assert "nothing is deleted: afterwards no principal would have ALTER on the cluster" in refused.output
    assert admin.acls == {ANNA}
    assert run(monkeypatch, admin, "delete", *which.split(), "--force").exit_code == 0
    assert not admin.acls


def test_a_denial_that_takes_the_last_administrators_rights_is_created_by_force_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = FakeAdmin(ANNA)
    denial = ("create", "--deny-principal", "User:*", "--operation", "all", "--cluster")
    refused = run(monkeypatch, admin, *denial)
    assert refused.exit_code == 1
    assert "nothing is created: afterwards no principal would have ALTER on the cluster" in refused.output
    assert admin.acls == {ANNA}
    assert run(monkeypatch, admin, *denial, "--force").exit_code == 0
    assert len(admin.acls) == 2


def test_who_may_not_see_configs_changes_acls_as_long_as_an_administrator_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = FakeAdmin(ANNA)
    admin.shows_configs = False
    allowed = ("create", "--allow-principal", "User:ben", "--operation", "describe", "--cluster")
    assert run(monkeypatch, admin, *allowed).exit_code == 0
    refused = run(monkeypatch, admin, "delete", "--cluster")
    assert refused.exit_code == 1
    assert "you may not see whether the broker has super.users" in refused.output
    assert len(admin.acls) == 2


def test_with_super_users_the_last_acl_of_the_cluster_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin(ANNA, super_users="User:root")
    assert run(monkeypatch, admin, "delete", "--cluster").exit_code == 0
    assert not admin.acls


def test_without_principals_all_acls_of_that_name_and_pattern_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    other, prefixed = entry("other"), entry("orders", pattern_type=PREFIXED)
    admin = FakeAdmin(entry("orders"), entry("orders", Operation.WRITE, principal="User:b"), prefixed, other)
    done = run(monkeypatch, admin, "delete", "--topic", "orders")
    assert (done.exit_code, admin.acls) == (0, {prefixed, other})
    assert "no ACL matches: nothing is deleted" in run(monkeypatch, admin, "delete", "--topic", "orders").output


def test_whoever_names_no_operation_hears_that_only_acls_of_all_were_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin(entry("orders"))
    options = ("--allow-principal", "User:alice", "--topic", "orders")
    hint = "give --operation"
    assert hint in run(monkeypatch, admin, "delete", *options).output
    assert hint not in run(monkeypatch, admin, "delete", *options, "--operation", "write").output
    assert admin.acls == {entry("orders")}


def test_a_denial_is_deleted_and_the_same_acl_that_allows_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin(entry("orders"))
    options = ("--operation", "read", "--topic", "orders")
    run(monkeypatch, admin, "create", "--deny-principal", "User:alice", *options)
    assert len(admin.acls) == 2
    run(monkeypatch, admin, "delete", "--deny-principal", "User:alice", *options)
    assert admin.acls == {entry("orders")}


@pytest.fixture
def mixed() -> FakeAdmin:
    """ACLs of alice, one of which denies, and of others."""
    denial = entry("pay", Operation.WRITE, permission=DENY)
    return FakeAdmin(ANNA, entry("orders"), denial, entry("orders", principal="User:b"))


def test_all_acls_of_a_principal_are_shown_and_deleted_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, mixed: FakeAdmin
) -> None:
    refused = run(monkeypatch, mixed, "delete", "--principal", "User:alice")
    assert refused.exit_code == 1
    assert "nothing is deleted: give --yes to delete 2 ACLs like these" in refused.output
    assert [line.split()[1] for line in refused.stderr.splitlines()[1:3]] == ["orders", "pay"]
    assert len(mixed.acls) == 4
    monkeypatch.setattr("kraft.cli.acls.commands._is_asked_at_a_terminal", lambda: True)
    monkeypatch.setattr(commands, "open_admin", lambda *_: mixed)
    typed = ["acls", "delete", "--principal", "User:alice"]
    assert CliRunner().invoke(main.application(["acls"]), typed, input="n\n").exit_code == 1
    assert len(mixed.acls) == 4
    assert CliRunner().invoke(main.application(["acls"]), typed, input="y\n").exit_code == 0
    assert {each.principal for each in mixed.acls} == {"User:anna", "User:b"}


def test_a_script_says_yes_before_and_may_name_a_resource(monkeypatch: pytest.MonkeyPatch, mixed: FakeAdmin) -> None:
    done = run(monkeypatch, mixed, "delete", "--principal", "User:alice", "--topic", "pay", "--yes")
    assert (done.exit_code, len(mixed.acls)) == (0, 3)
    assert "nothing is deleted" in run(monkeypatch, mixed, "delete", "--principal", "User:nobody").output
