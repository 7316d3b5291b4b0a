"""The warning of commands that show metadata while no controller is active: it may be out of date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.cli.printing import say

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.client.model.errors import NoActiveController


def inactive_controller(admin: Admin) -> NoActiveController | None:
    """Return the error that says that no controller is active; None if one is, or if this user may not know."""
    from kraft.client import ErrorCode, Refusal
    from kraft.client.model.errors import NoActiveController

    try:
        admin.describe_quorum(wait_for_leader=False)
    except NoActiveController as error:
        return error
    except Refusal as refusal:
        # Whoever may not describe the cluster may describe topics all the same.
        if refusal.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
    return None


def warn_of(inactive: NoActiveController | None) -> None:
    """Say on standard error that no controller is active, if so."""
    if inactive is not None:
        say(f"kraft: {inactive.message}")
