from __future__ import annotations

import pytest

from kraft.model.clients import TEXT_CHARACTERS_MAX
from kraft.rpc.user_agents import Software, software_in

LONG = "v" * 300


@pytest.mark.parametrize(
    ("said", "software"),
    [
        (
            "kraft-python/0.1.0 grpc-python-asyncio/1.66.1 grpc-c/43.0.0 (linux; chttp2)",
            Software("kraft-python", "0.1.0"),
        ),
        ("grpc-go/1.60.0", Software("grpc-go", "1.60.0")),
        ("orders", Software("orders", "")),
        ("", Software("", "")),
        (b"orders/\xff", Software("orders", "\ufffd")),
        (f"{LONG}/{LONG}", Software(LONG[:TEXT_CHARACTERS_MAX], LONG[:TEXT_CHARACTERS_MAX])),
    ],
)
def test_the_first_product_is_the_software(said: str | bytes, software: Software) -> None:
    assert software_in([("other", "x"), ("user-agent", said)]) == software


def test_a_client_may_say_nothing() -> None:
    assert software_in([]) == Software("", "")
