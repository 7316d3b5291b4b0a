from __future__ import annotations

from benchmarks.acls import measured


def test_a_line_has_what_acls_cost() -> None:
    row = measured(500)
    assert row["ACLs"] == 500
    costs = [value for name, value in row.items() if name != "ACLs"]
    assert len(costs) == 7
    assert all(isinstance(each, int | float) and each >= 0 for each in costs)
