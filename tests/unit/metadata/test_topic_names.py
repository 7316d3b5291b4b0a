from __future__ import annotations

import pytest

from kraft.metadata.topic_names import check_no_collision, check_topic_name, unknown_topic
from kraft.model.errors import ErrorCode, Refusal


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "directory"),
        ("..", "directory"),
        ("A" * 250, "250 characters"),
        ("a b", "characters that are not allowed"),
        ("a/b", "characters that are not allowed"),
        ("a\n", "characters that are not allowed"),
        ("é", "characters that are not allowed"),
        ("a\x00", "characters that are not allowed"),
    ],
)
def test_an_illegal_name_is_refused_with_the_rule_it_breaks(name: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as refused:
        check_topic_name(name)
    assert refused.value.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'orders'"),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "characters that are not allowed"),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
    ],
)
def test_an_impossible_topic_name_is_refused(name: str, code: ErrorCode, reason: str) -> None:
    refusal = unknown_topic(name)
    assert refusal.error_code is code
    assert reason in refusal.message


def test_names_that_differ_by_dot_and_underscore_collide() -> None:
    with pytest.raises(Refusal, match=r"'a\.b' collides with topic 'a_b'") as refused:
        check_no_collision("a.b", ["other", "a_b"])
    assert refused.value.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("words", [2, 7, 8, 100])
def test_names_of_many_parts_collide_as_well(words: int) -> None:
    existing = "_".join("w" * words)
    with pytest.raises(Refusal, match="collides"):
        check_no_collision(existing.replace("_", ".", 1), {existing: 1, "w": 2})
    check_no_collision(existing, {existing, existing.replace("w", "v", 1)})
