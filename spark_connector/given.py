"""Reads the values of options: each becomes a typed value, or an OptionError of one line that names the option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kraft.client import TopicPartition
from spark_connector.offsets import LONG_MAX, Offsets, OffsetsError, from_topics, partitions_from, shown

LATEST_OFFSET: Final = -1
"""The end of the partition, in the JSON of startingOffsets and endingOffsets."""

EARLIEST_OFFSET: Final = -2
"""The first record that the partition still holds, in the JSON of startingOffsets and endingOffsets."""

_INT_MAX: Final = (1 << 31) - 1

_SECONDS_OF: Final = {
    "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400
}  # fmt: skip
"""Units of Spark's durations. A number without one is in milliseconds."""

_WORDS_OF_OFFSETS: Final = "earliest", "latest"

Parsed = TypeVar("Parsed")


class OptionError(ValueError):
    """An option is missing, unknown or malformed. The text is one line that names it."""


class Given:
    """The options that the user gave, by name in any case, as Spark matches them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def first_of(self, names: tuple[str, ...]) -> str | None:
        """Return which of these names was given, spelt as here. Raises OptionError if two of them differ."""
        given = [name for name in names if self.text(name) is not None]
        if len({(self.text(name) or "").strip() for name in given}) > 1:
            raise OptionError(f"options {' and '.join(given)} have different values; give one of them")
        return given[0] if given else None

    def number(self, name: str, *, most: int = LONG_MAX) -> int | None:
        """Return a whole number above zero."""
        text = self.text(name)
        if text is None:
            return None
        number = whole_number(text)
        if number is None or not 0 < number <= most:
            limit = "" if most == LONG_MAX else f", at most {most}"
            raise OptionError(f"option {name}: {shown(text)} is not a whole number above zero{limit}")
        return number

    def int_number(self, name: str) -> int | None:
        return self.number(name, most=_INT_MAX)

    def duration_s(self, name: str, *, default: float) -> float:
        """Return a duration as Spark writes it (`15m`, `90s`), in seconds."""
        text = self.text(name)
        if text is None:
            return default
        found = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.strip().lower(), re.ASCII)
        if found is None or (found[2] or "ms") not in _SECONDS_OF:
            raise OptionError(f"option {name}: {shown(text)} is not a duration like 90s or 15m")
        return int(found[1]) * _SECONDS_OF[found[2] or "ms"]

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        word = str(default).lower() if text is None else text.strip().lower()
        if word not in ("true", "false"):
            raise OptionError(f"option {name}: {shown(word)} is neither true nor false")
        return word == "true"

    def word(self, name: str, words: tuple[str, ...]) -> str:
        """Return one of the words, the first of them if the option was not given."""
        text = self.text(name)
        word = words[0] if text is None else text.strip().lower()
        if word not in words:
            raise OptionError(f"option {name}: {shown(word)} is not {' or '.join(words)}")
        return word

    def timestamp_ms(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        timestamp_ms = whole_number(text)
        if timestamp_ms is None or timestamp_ms > LONG_MAX:
            raise OptionError(f"option {name}: {shown(text)} is not a time in milliseconds since 1970")
        return timestamp_ms

    def timestamps_ms(self, name: str) -> Offsets | None:
        timestamps_ms = self._json(name, 'JSON like {"topic": {"0": 1700000000000}}', from_topics)
        for partition, timestamp_ms in (timestamps_ms or {}).items():
            if not 0 <= timestamp_ms <= LONG_MAX:
                raise OptionError(f"option {name}: {timestamp_ms} of {partition} is not a time in milliseconds")
        return timestamps_ms

    def offsets(self, name: str) -> str | Offsets | None:
        """Return `earliest`, `latest`, or an offset for each partition; it may be -2 or -1."""
        text = self.text(name)
        if text is None:
            return None
        if text.strip().lower() in _WORDS_OF_OFFSETS:
            return text.strip().lower()
        offsets = self._json(name, 'earliest, latest or JSON like {"topic": {"0": 12, "1": -2}}', from_topics)
        for partition, offset in (offsets or {}).items():
            if not EARLIEST_OFFSET <= offset <= LONG_MAX:
                raise OptionError(
                    f"option {name}: {shown(offset)} of {partition} is not an offset; -2 is earliest, -1 latest"
                )
        return offsets

    def partitions(self, name: str) -> tuple[TopicPartition, ...] | None:
        return self._json(name, 'JSON like {"topic": [0, 1]}', partitions_from)

    def not_empty(self, name: str) -> str | None:
        text = self.text(name)
        if text is not None and not text.strip():
            raise OptionError(f"option {name} is empty")
        return None if text is None else text.strip()

    def _json(self, name: str, expected: str, parse: Callable[[object], Parsed]) -> Parsed | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(json.loads(text, object_pairs_hook=_without_repetition))
        except OffsetsError as error:
            raise OptionError(f"option {name}: expected {expected}; {error}") from None
        except (ValueError, RecursionError):
            raise OptionError(f"option {name}: expected {expected}, not {shown(text)}") from None


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object. Python's own reader takes the last of two equal names in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise OffsetsError(f"{shown(next(name for name in names if names.count(name) > 1))} is given twice")
    return found


def listed(text: str | None) -> tuple[str, ...]:
    """Return the parts of a text with commas, each once."""
    return tuple(dict.fromkeys(item.strip() for item in (text or "").split(",") if item.strip()))


def whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII) else None
