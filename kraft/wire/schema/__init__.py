"""Declarations of Kafka's messages, one file for each API: fields in wire order, with their versions.

They follow Kafka 4.x (message definitions of the protocol guide), for the versions that this broker serves or may serve
later. A range that covers all versions of a message is left out: if requests start at version 3, a field since version
2 has no range. `consumer_protocol` is not an API: it is what members of a group put into JoinGroup and SyncGroup.
"""

from collections.abc import Mapping
from typing import Final

WITHOUT_HANDLER: Final[Mapping[str, tuple[str, ...]]] = {
    "delegation tokens are not supported": (
        "create_delegation_token",
        "describe_delegation_token",
        "expire_delegation_token",
        "renew_delegation_token",
    ),
    "the voters are fixed in the configuration": ("add_raft_voter", "remove_raft_voter"),
}
"""Files whose API no listener serves, by the reason. ApiVersions does not list these APIs."""
