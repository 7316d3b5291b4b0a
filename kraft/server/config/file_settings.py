"""The settings of a file by key: their values, and messages that name the file and the line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraft.model.config_keys import Key, Required
from kraft.server.config import overrides
from kraft.server.config.conflict import Conflict
from kraft.server.config.keys import BY_NAME
from kraft.server.config.properties import Property

HIDDEN: Final = "[hidden]"


class FileSettings:
    def __init__(self, file: Path, by_key: Mapping[str, Property]) -> None:
        self._file = file
        self._by_key = by_key

    def of_listener(self, name: str) -> FileSettings:
        """Return the settings as that listener has them."""
        return FileSettings(self._file, overrides.of_listener(self._by_key, name))

    def get(self, name: str) -> str | None:
        """Return the text of a setting."""
        setting = self._by_key.get(name)
        return None if setting is None else setting.value

    def value(self, key: Key) -> object:
        """Return the key's value, or its default. Raises Conflict."""
        setting = self._by_key.get(key.name)
        older = self._by_key.get(key.older_name) if key.older_name else None
        if setting and older and setting.value != older.value:
            raise Conflict(older.key, f"contradicts {key.name}={setting.value}: remove one of them")
        setting = setting or older
        if setting is None:
            if isinstance(key.default, Required):
                raise Conflict(key.name, f"is missing: set it, for example {key.name}={key.default.example}")
            return key.in_field(key.default)
        try:
            return key.in_field(key.read(setting.value))
        except ValueError as error:
            raise Conflict(setting.key if setting is older else key.name, str(error)) from None

    def problem(self, conflict: Conflict) -> str:
        """Return the line that says what is wrong. It shows no secret."""
        name, reason = conflict.key, conflict.reason
        setting = self._by_key.get(name)
        key = BY_NAME.get(name)
        if setting is None and key is not None:
            # The file may use the older name, or rely on the default.
            setting = self._by_key.get(key.older_name or "")
        if setting is not None:
            shown = "" if is_secret(setting.key) else f"={setting.value}"
            return f"{self._file}:{setting.line}: {setting.key}{shown}: {reason}"
        if key is not None and isinstance(key.default, Required):
            return f"{self._file}: {name} {reason}"
        default = "" if key is None or key.is_secret else f"={key.default}"
        return f"{self._file}: {name}{default} (the default): {reason}"

    def in_effect(self) -> dict[str, str]:
        """Return the settings that have an effect, by current key names. Secrets are not among their texts."""
        return {
            BY_NAME[name].name if name in BY_NAME else name: HIDDEN if is_secret(name) else setting.value
            for name, setting in self._by_key.items()
            if name in BY_NAME or overrides.override(name) is not None
        }


def is_secret(name: str) -> bool:
    """Return whether no message may show the value of a setting."""
    found = overrides.override(name)
    if found is not None and found.of_mechanism == overrides.JAAS_CONFIG:
        return True
    key = BY_NAME.get(name if found is None else found.key)
    return key is not None and key.is_secret
