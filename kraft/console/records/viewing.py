"""Who may view records of a topic, and how much of them. Each view passes here, and is written down."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from kraft.console.records.decoding import Decoded

if TYPE_CHECKING:
    from kraft.console.config import ClusterConfig

log = structlog.get_logger()

MASK: Final = "••••"


class Viewing(StrEnum):
    """How records are shown to a user. It may only take away from what the brokers' ACLs allow."""

    OFF = "off"
    MASKED = "masked"
    ON = "on"

    @classmethod
    def of(cls, config: ClusterConfig, cluster: str, topic: str, user: str) -> Viewing:
        """Return what the user may view of the topic's records."""
        return cls.ON


class View(Struct, frozen=True, kw_only=True):
    """What somebody looked at."""

    cluster: str
    topic: str
    user: str
    viewing: Viewing
    what: str
    """"page", "record" or "tail"."""

    partitions: list[int]
    records: int
    query: str = ""
    """The filter, as it was typed."""


def shown(decoded: Decoded, viewing: Viewing) -> Decoded:
    """Return what the user may see of it. Filters, too, get only this."""
    match viewing:
        case Viewing.ON:
            return decoded
        case Viewing.MASKED:
            return replace(decoded, text=MASK, value=None)
        case Viewing.OFF:
            return Decoded(format="hidden", text="", value=None)


def note(view: View) -> None:
    """Write the view into the audit of the console."""
    log.info(
        "records viewed",
        cluster=view.cluster,
        topic=view.topic,
        user=view.user,
        viewing=str(view.viewing),
        what=view.what,
        partitions=view.partitions,
        records=view.records,
        query=view.query[:200],
    )
