"""The sender of a request to commit offsets, as groups of both kinds check it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MEMBER_EPOCHS_FROM: Final = 9
"""OffsetCommit has member epochs from this version on."""


class Committer(Struct, frozen=True, kw_only=True):
    """Sender of a commit. Without a generation: an administrator, or a consumer that assigns itself."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    """Generation of a classic member, or epoch of a member of the consumer protocol."""

    api_version: int = MEMBER_EPOCHS_FROM
    """Version of OffsetCommit."""

    is_transactional: bool = False
    """True for TxnOffsetCommit. A producer need not say for which member it commits."""
