"""Users that log in with a password, and what hangs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.access.administrators import AccessSettings, is_administered, is_last_administrator
from kraft.metadata.user_decisions import NUMBERS
from kraft.model.principal import Principal
from kraft.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

if TYPE_CHECKING:
    from kraft.metadata.acls import AclEntry
    from kraft.wire.schema.describe_user_scram_credentials import DescribeUserScramCredentialsResult

MECHANISMS: Final = tuple(each.value for each in ScramMechanism)
ITERATIONS_LEAST: Final = ITERATIONS_MIN
ITERATIONS_MOST: Final = ITERATIONS_MAX


def mechanisms_of(described: DescribeUserScramCredentialsResult) -> dict[str, int]:
    """Return the iterations of a user's passwords by mechanism."""
    return {NUMBERS[each.mechanism].value: each.iterations for each in described.credential_infos}


def principal_of(user: str) -> str:
    return str(Principal(user))


def problem_of_deletion(user: str, of_cluster: list[AclEntry], settings: AccessSettings | None) -> str:
    """Return why the user should not be deleted: afterwards nobody might change ACLs and users. Empty: nothing is why.

    `settings` is None if who deletes may not see them.
    """
    principal = principal_of(user)
    if settings is None:
        if is_administered([each for each in of_cluster if each.principal != principal]):
            return ""
        return (
            f"you may not see whether {user} is the only administrator, which takes DESCRIBE_CONFIGS on the cluster;"
            " without another one nobody could change ACLs and users any more"
        )
    if settings.is_authorized and is_last_administrator(principal, of_cluster, settings):
        return f"{user} is the only administrator: nobody could change ACLs and users any more"
    return ""
