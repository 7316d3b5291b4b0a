"""Small immutable maps, copied with changes. Large ones are in `persistent_maps`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


def with_setting(
    before: Mapping[Key, Mapping[str, Item]], owner: Key, key: str, value: Item | None
) -> Mapping[Key, Mapping[str, Item]]:
    """Set the owner's key; None removes it. An owner without keys is removed too."""
    after = dict(before)
    settings = dict(overlaid(before.get(owner, {}), {key: value}))
    if settings:
        after[owner] = settings
    else:
        after.pop(owner, None)
    return after


def overlaid(before: Mapping[Key, Item], changes: Mapping[Key, Item | None]) -> Mapping[Key, Item]:
    """Return `before` with the changes; None removes a key. Without changes, return the same object."""
    if not changes:
        return before
    after = dict(before)
    for key, item in changes.items():
        if item is None:
            after.pop(key, None)
        else:
            after[key] = item
    return after
