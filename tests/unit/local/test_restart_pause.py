from __future__ import annotations

from kraft.local.restart_pause import RestartPause


def test_the_pause_grows_from_a_second_to_half_a_minute() -> None:
    pause = RestartPause()
    assert [pause.after(lived_s=0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_minute_of_life_makes_it_short_again() -> None:
    pause = RestartPause()
    assert [pause.after(lived_s) for lived_s in (0, 0, 59, 60, 5, 3600, 5)] == [1, 2, 4, 1, 2, 1, 2]
