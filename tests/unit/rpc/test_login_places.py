from __future__ import annotations

from contextlib import ExitStack

from kraft.rpc.login_places import LoginPlaces


def taken(places: LoginPlaces, stack: ExitStack, host: str, name: str, ended: list[str]) -> None:
    stack.enter_context(places.place(host, lambda: ended.append(name)))


def test_who_has_too_many_ends_the_oldest_of_its_own() -> None:
    places, ended = LoginPlaces(10, 2), list[str]()
    with ExitStack() as stack:
        for number, host in enumerate(["honest", "flood", "flood", "flood", "flood"]):
            taken(places, stack, host, f"{host} {number}", ended)
    assert ended == ["flood 1", "flood 2"]


def test_when_all_places_are_taken_the_oldest_of_all_ends() -> None:
    places, ended = LoginPlaces(3, 2), list[str]()
    with ExitStack() as stack:
        for number in range(5):
            taken(places, stack, f"host {number}", str(number), ended)
    assert ended == ["0", "1"]


def test_a_login_that_is_over_leaves_its_place() -> None:
    places, ended = LoginPlaces(2, 1), list[str]()
    for number in range(5):
        with ExitStack() as stack:
            taken(places, stack, "host", str(number), ended)
    assert ended == []
