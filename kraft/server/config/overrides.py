"""Settings of one listener: `listener.name.NAME.KEY`, with the listener's name in lower case, as in Kafka.

Such a setting takes the place of `KEY` for that listener. What names a mechanism, too, is for logins by it:
`listener.name.NAME.plain.sasl.jaas.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kraft.model.config_keys import components_of, keys_of
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.properties import Property
from kraft.server.config.security_settings import ListenerKeys

PREFIX: Final = "listener.name."

CREATION_RATE: Final = "max.connection.creation.rate"

JAAS_CONFIG: Final = "sasl.jaas.config"

_CALLBACK_HANDLER: Final = "sasl.server.callback.handler.class"

_VALIDATORS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""What checks tokens in Kafka, by its newer and its older name. A node always checks them."""

LISTENER_KEYS: Final = {
    key.name: key for component in components_of(ListenerKeys).values() for key in keys_of(component).values()
}
"""Keys that a listener can have a value of its own for, and that say what it requires of clients."""

_MECHANISMS: Final = tuple(mechanism.lower() for mechanism in SaslMechanism)


class Override(Struct, frozen=True):
    """The parts of a key: the listener's name as written, and what is set for it."""

    listener: str
    key: str

    @property
    def mechanism(self) -> str:
        """The mechanism before the rest of the key, in lower case; empty if there is none."""
        first, _, _ = self.key.partition(".")
        return first if first in (*_MECHANISMS, "gssapi") else ""

    @property
    def of_mechanism(self) -> str:
        """What is set for the mechanism."""
        return self.key.partition(".")[2]


def override(name: str) -> Override | None:
    """Return the parts of a key's name; None if it is not for one listener."""
    listener, separator, key = name.removeprefix(PREFIX).partition(".")
    return Override(listener, key) if name.startswith(PREFIX) and listener and separator and key else None


def of_listener(settings: Mapping[str, Property], name: str) -> dict[str, Property]:
    """Return the settings as that listener has them: its own take the place of those for all."""
    own = {
        found.key: setting
        for setting in settings.values()
        if (found := override(setting.key)) is not None and found.listener.upper() == name
    }
    return {**settings, **own}


def refusal(name: str, value: str) -> str | None:
    """Return why a node must not start with this setting of one listener, or None."""
    found = override(name)
    if found is None:
        return f"expected {PREFIX}NAME.KEY"
    if found.listener != found.listener.lower():
        return f"write the listener's name in lower case: {PREFIX}{found.listener.lower()}.{found.key}"
    if found.key in LISTENER_KEYS or found.key == CREATION_RATE:
        return None
    if found.mechanism == "gssapi" or found.key.startswith("sasl.kerberos."):
        return "Kerberos (GSSAPI) is not supported: remove the line"
    if found.key == JAAS_CONFIG:
        return f"which mechanism it is for is not said: write {PREFIX}{found.listener}.plain.{JAAS_CONFIG}"
    if found.mechanism:
        return _refusal_for_mechanism(found, value)
    return "not supported yet for one listener: remove the line"


def _refusal_for_mechanism(found: Override, value: str) -> str | None:
    if found.of_mechanism == JAAS_CONFIG:
        return None
    if found.of_mechanism == _CALLBACK_HANDLER and found.mechanism == "oauthbearer" and value in _VALIDATORS:
        return None
    if found.of_mechanism in LISTENER_KEYS:
        return f"not supported yet for one mechanism: write {PREFIX}{found.listener}.{found.of_mechanism}"
    return "not supported yet: remove the line"


def warning(name: str) -> str | None:
    """Return a warning for a setting of one listener without effect, or None."""
    found = override(name)
    if found is not None and found.of_mechanism == JAAS_CONFIG and found.mechanism != SaslMechanism.PLAIN.lower():
        return "has no effect: nodes authenticate each other, see cluster.secret.file, and users are not in files"
    return None
