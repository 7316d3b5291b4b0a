from __future__ import annotations

import pytest

from kraft.access.administrators import AccessSettings, is_last_administrator, loses_last_administrator
from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, PermissionType, ResourceType
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
