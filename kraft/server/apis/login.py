"""APIs for the login of Kafka's clients. gRPC has a call of its own, which is no API: its listener answers it."""

from __future__ import annotations

from typing import Any, Final

from kraft.server.apis.api import Api, DecidedBy
from kraft.server.handlers import login
from kraft.wire.api_keys import ApiKey

LOGIN_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.SASL_HANDSHAKE,
        decided_by=DecidedBy.BROKER,
        handler=lambda _: login.refuse_handshake,
        needs=(),
    ),
    Api(
        key=ApiKey.SASL_AUTHENTICATE,
        decided_by=DecidedBy.BROKER,
        handler=lambda _: login.refuse_authenticate,
        needs=(),
    ),
)
