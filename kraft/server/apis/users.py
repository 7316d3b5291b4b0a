"""APIs for users that log in with a password."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.metadata.user_decisions import describe_user_scram_credentials
from kraft.model.access import Operation, ResourceType
from kraft.rpc.user_calls import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.handlers import forwarded, from_metadata
from kraft.server.handlers import users
from kraft.wire.api_keys import ApiKey

USER_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        call=DESCRIBE_USER_SCRAM_CREDENTIALS,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata(describe_user_scram_credentials),
        at_controller=from_metadata(describe_user_scram_credentials),
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
        refused=users.description_refused,
    ),
    Api(
        key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        call=ALTER_USER_SCRAM_CREDENTIALS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(ALTER_USER_SCRAM_CREDENTIALS, users.is_applied),
        at_controller=lambda controller: partial(users.alter, controller.decisions, controller.entropy),
        audited=audited.USERS,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=users.refused,
    ),
)
