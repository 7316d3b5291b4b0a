from __future__ import annotations

import json
from itertools import islice

from kraft.cli.demo import delays, flights
from kraft.cli.demo.delays import DelayCell


def test_a_flight_is_published_as_json_under_its_airline() -> None:
    first = next(flights.read())
    assert first.key == b"UA"
    assert json.loads(first.value) == {
        "id": 1,
        "year": 2013,
        "month": 1,
        "day": 1,
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "distance": 1400,
        "sched_dep_time": 515,
        "dep_delay": 2,
    }


def test_every_flight_has_a_number_of_its_own() -> None:
    assert [flight.id for flight in flights.read(1_000)] == list(range(1, 1_001))


def test_a_cancelled_flight_has_no_delay() -> None:
    cancelled = next(flight for flight in flights.read() if flight.dep_delay is None)
    assert json.loads(cancelled.value)["dep_delay"] is None


def test_reading_stops_after_flights_max() -> None:
    assert len(list(flights.read(1_000))) == 1_000
    assert len(list(islice(flights.columns(("carrier", "month")), 3))) == 3


def test_the_file_holds_the_year_that_the_demo_promises() -> None:
    table = delays.from_file()
    year = delays.total(table.values())
    assert year.flights == 336_776
    assert year.flights - year.departed == 8_255
    assert len({group.carrier for group in table}) == 16
    assert len(table) == 185
    assert table[DelayCell("HA", 1)].flights == 31
