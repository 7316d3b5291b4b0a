"""What a mirror notes of itself, and whether a later start means the same."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.mirror.positions import MirrorIdentity

SAME = MirrorIdentity(source="s", target="t", prefixed=False, separator=".")
PREFIXED = replace(SAME, prefixed=True)


def test_topics_have_the_same_names_with_the_same_policy_and_separator() -> None:
    assert SAME.has_same_names(replace(SAME, source="other", separator="-"))
    assert PREFIXED.has_same_names(PREFIXED)
    assert PREFIXED.has_same_names(replace(PREFIXED, separator=None)), "an older mirror did not note it"
    assert not SAME.has_same_names(PREFIXED)
    assert not PREFIXED.has_same_names(replace(PREFIXED, separator="-"))


def test_names_are_said_by_how_they_begin() -> None:
    assert SAME.names_said("A") == "topics keep their names"
    assert replace(PREFIXED, separator="-").names_said("A") == "topics begin with 'A-'"
