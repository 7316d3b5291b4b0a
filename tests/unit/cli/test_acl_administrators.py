from __future__ import annotations

import pytest

from kraft.cli.acls.administrators import AccessSettings, loses_last_administrator
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
    assert loses_last_administrator(before, removed, NO_SUPER_USERS) is loses


def test_super_users_are_administrators() -> None:
    settings = AccessSettings(is_authorized=True, super_users=frozenset({"User:root"}), allow_if_no_acl=False)
    assert not loses_last_administrator([ANNA], [ANNA], settings)
