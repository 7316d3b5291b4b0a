from __future__ import annotations

import pytest

from kraft.model.moments import parse_datetime, parse_duration

NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 in UTC."""


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-11-22T12:00:00.000Z", NOON_MS),
        ("2026-11-22T12:00:00.000", NOON_MS),
        ("2026-11-22T12:00:00", NOON_MS),
        ("2026-11-22T12:00", NOON_MS),
        ("2026-11-22T13:30:00.000+01:30", NOON_MS),
        ("2026-11-22T13:00:00.000+0100", NOON_MS),
        ("2026-11-22T07:00:00.000-05", NOON_MS),
        (" 2026-11-22T12:00:00.007Z ", NOON_MS + 7),
        ("2026-11-22", NOON_MS - 43_200_000),
        ("1970-01-01T00:00:00.000Z", 0),
    ],
)
def test_a_date_and_time_is_in_utc_unless_it_says_otherwise(text: str, timestamp_ms: int) -> None:
    assert parse_datetime(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a date and time"),
        ("yesterday", r"expected YYYY-MM-DD\[THH:MM"),
        ("2026-13-22T12:00:00.000Z", "is not a date and time"),
        ("1795348800000", "is not a date and time"),
        ("0001-01-01T00:00:00+14:00", "is before 1970"),
        ("1969-12-31T23:59:59.999Z", "is before 1970"),
        ("2026-11-22T12:00:00" + "x" * 1_000, "is not a date and time"),
    ],
)
def test_any_other_text_is_not_a_date(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_datetime(text)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("P1W", 604_800_000),
        ("pt0.25s", 250),
        ("PT1,5S", 1_500),
        ("PT1.23456S", 1_234),
        ("PT0S", 0),
        ("P0D", 0),
        ("P36500000D", 3_153_600_000_000_000),
    ],
)
def test_a_duration_is_in_milliseconds(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1H", "P1M", "P1Y", "-PT1H", "PT-1H", "PT1", "P\u0661D", "PT.5S", "1d"]
)
def test_any_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
