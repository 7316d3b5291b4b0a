from __future__ import annotations

from msgspec import Struct

from kraft.model.password import Password


class _Holder(Struct, frozen=True):
    password: Password


def test_neither_text_nor_repr_nor_format_of_a_password_shows_it() -> None:
    password = Password("hunter2")
    for shown in (str(password), repr(password), f"{password}", f"{password!r}", repr(_Holder(password))):
        assert "hunter2" not in shown
    assert str(password) == "[hidden]"
