"""A client that asks which of its metrics are wanted, and pushes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from kraft.metadata.client_metrics import (
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)
from kraft.model.callbacks import Callback

UNKNOWN: Final = "unknown"
"""What Kafka calls the software of a client that does not say."""


def _nowhere(_: Callback) -> None:
    """There is no connection that could end."""


class PushingClient(Struct, frozen=True, kw_only=True):
    """What a request says of the client that sent it: texts of limited length."""

    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    host: str = ""
    port: str = ""
    principal: str = ""
    call_when_gone: Callable[[Callback], None] = _nowhere
    """Has this called once the connection has ended, in place of what was to be called before."""

    def matched(self) -> Mapping[str, str]:
        """Return what subscriptions compare, by Kafka's names. A client id that the client did not say is not there."""
        said: Final = {
            CLIENT_ID: self.client_id,
            CLIENT_SOFTWARE_NAME: self.software_name or UNKNOWN,
            CLIENT_SOFTWARE_VERSION: self.software_version or UNKNOWN,
            CLIENT_SOURCE_ADDRESS: self.host,
            CLIENT_SOURCE_PORT: self.port,
        }
        return {name: value for name, value in said.items() if value}
