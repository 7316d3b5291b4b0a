"""The option `bootstrap.servers`, which reading and writing share."""

from __future__ import annotations

import re
from typing import Final

from spark_connector.client_settings import names_of
from spark_connector.given import Given, OptionError, listed
from spark_connector.offsets import shown

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/,\[\]]+):(?P<port>[0-9]{1,5})")


def bootstrap_servers(given: Given) -> tuple[str, ...]:
    """Return the addresses. Raises OptionError."""
    name = given.first_of(names_of("bootstrap.servers"))
    if name is None:
        raise OptionError("option bootstrap.servers is missing: give the cluster's gRPC addresses, host:port[,...]")
    addresses = listed(given.text(name))
    if not addresses:
        raise OptionError(f"option {name} is empty: expected host:port[,...]")
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise OptionError(f"option {name}: {shown(address)} is not host:port")
    return addresses
