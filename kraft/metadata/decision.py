"""What a decider gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kraft.metadata.records import MetadataRecord

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[Response]):
    """Records to commit, and the answer to give once they are committed. Without records nothing changes."""

    records: Sequence[MetadataRecord]
    response: Response
