from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.access.administrators import (
    AccessSettings,
    access_settings,
    is_last_administrator,
    loses_last_administrator,
)
from kraft.client import ErrorCode, KraftError, Refusal
from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, PermissionType, ResourceType
from kraft.rpc.peers import Unreachable
from tests.support.acl_entries import ALLOW, DENY, entry

NO_SUPER_USERS = AccessSettings(is_authorized=True, super_users=frozenset(), allow_if_no_acl=False)


def on_cluster(
    principal: str, operation: Operation = Operation.ALTER, permission: PermissionType = ALLOW, host: str = "*"
) -> AclEntry:
    return entry(
        "kafka-cluster", operation, permission, principal=principal, host=host, resource_type=ResourceType.CLUSTER
    )


ANNA, BEN = on_cluster("User:anna"), on_cluster("User:ben", Operation.ALL)


@pytest.mark.parametrize(
    ("before", "removed", "loses"),
    [
        ([ANNA], [ANNA], True),
        ([ANNA, BEN], [ANNA], False),
        ([ANNA, BEN], [ANNA, BEN], True),
        ([ANNA, on_cluster("User:ben", Operation.DESCRIBE)], [ANNA], True),
        ([ANNA, BEN, on_cluster("User:ben", permission=DENY)], [ANNA], True),
        ([ANNA, BEN, on_cluster("User:*", Operation.ALL, DENY)], [ANNA], False),
        ([ANNA, BEN, on_cluster("User:ben", permission=DENY, host="10.0.0.1")], [ANNA], False),
        ([ANNA, entry("*", Operation.ALL, principal="User:ben")], [ANNA], True),
        ([ANNA], [BEN], False),
        ([], [ANNA], False),
    ],
)
def test_the_last_administrator_is_the_last_principal_that_may_alter_the_cluster(
    before: list[AclEntry], removed: list[AclEntry], loses: bool
) -> None:
    after = [each for each in before if each not in removed]
    assert loses_last_administrator(before, after, NO_SUPER_USERS) is loses


def test_a_denial_takes_rights_as_a_deletion_does() -> None:
    denial = on_cluster("User:*", permission=DENY)
    assert loses_last_administrator([ANNA, BEN], [ANNA, BEN, denial], NO_SUPER_USERS)
    assert not loses_last_administrator(
        [ANNA, BEN], [ANNA, BEN, on_cluster("User:anna", permission=DENY)], NO_SUPER_USERS
    )


def test_where_no_acl_means_everybody_the_first_one_ends_that() -> None:
    settings = AccessSettings(is_authorized=True, super_users=frozenset(), allow_if_no_acl=True)
    assert loses_last_administrator([], [on_cluster("User:anna", Operation.DESCRIBE)], settings)
    assert not loses_last_administrator([], [ANNA], settings)
    assert not loses_last_administrator([ANNA], [], settings)


@pytest.mark.parametrize(
    ("super_users", "entries", "is_last"),
    [
        ({"User:anna"}, [], True),
        ({"User:anna", "User:root"}, [], False),
        ({"User:anna"}, [ANNA], True),
        ({"User:anna"}, [BEN], False),
        ({"User:root"}, [ANNA], False),
        (set(), [ANNA], True),
        (set(), [ANNA, BEN], False),
        (set(), [ANNA, on_cluster("User:*")], False),
        (set(), [BEN], False),
        (set(), [], False),
    ],
)
def test_a_user_is_the_last_administrator_if_nobody_else_is_one(
    super_users: set[str], entries: list[AclEntry], is_last: bool
) -> None:
    settings = AccessSettings(is_authorized=True, super_users=frozenset(super_users), allow_if_no_acl=False)
    assert is_last_administrator("User:anna", entries, settings) is is_last


def test_super_users_are_administrators() -> None:
    settings = AccessSettings(is_authorized=True, super_users=frozenset({"User:root"}), allow_if_no_acl=False)
    assert not loses_last_administrator([ANNA], [], settings)


class FakeAdmin:
    """Brokers that answer with what their files say, or not at all."""

    def __init__(self, answers: dict[int, KraftError | str], fenced: int = 0) -> None:
        self._answers = answers
        self._fenced = fenced

    def describe_brokers(self) -> list[Any]:
        return [SimpleNamespace(broker_id=each, fenced=each == self._fenced) for each in self._answers]

    def describe_broker_configs(self, broker_id: int, **_: object) -> list[Any]:
        answer = self._answers[broker_id]
        if isinstance(answer, KraftError):
            raise answer
        return [SimpleNamespace(name="super.users", value=answer)]


def test_a_broker_that_does_not_answer_hides_no_super_user() -> None:
    silent = Unreachable("b-1:9094", "no answer")
    gone = Refusal(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 is not in service")
    admin: Any = FakeAdmin({1: silent, 2: gone, 3: "User:root"})
    assert access_settings(admin).super_users == {"User:root"}
    admin = FakeAdmin({1: "User:old", 2: "User:root"}, fenced=1)
    assert access_settings(admin).super_users == {"User:root"}
    admin = FakeAdmin({1: silent, 2: silent})
    with pytest.raises(Unreachable):
        access_settings(admin)
    admin = FakeAdmin({1: Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"), 2: "User:root"})
    with pytest.raises(Refusal):
        access_settings(admin)
