from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kraft.model.access import words
from tests.unit.server.access.cases import CASES
from tests.unit.server.access.needs import Case

PAGE: Final = Path(__file__).parents[4] / "docs" / "authorization.md"


def api_name(name: str) -> str:
    """Return Kafka's name of an API: `AddOffsetsToTxn` of `<ApiKey.ADD_OFFSETS_TO_TXN: 25>`."""
    key = re.fullmatch(r"<ApiKey\.(\w+): \d+>", name)
    return name if key is None else "".join(word.capitalize() for word in key[1].split("_"))


def described(case: Case) -> str:
    needs = "; ".join(
        " or ".join(f"{each.operation.name} on the {words(each.resource_type)}" for each in alternatives)
        for alternatives in case.needs
    )
    codes = dict.fromkeys(each.code.name for one in case.needs for each in one[:1] if each.code is not None)
    return f"{needs or 'nothing'} | {', '.join(f'`{each}`' for each in codes)} | {case.note}"


def rows() -> list[str]:
    named: dict[str, str] = {}
    for name, case in CASES.items():
        named.setdefault(api_name(name), described(case))
    return [f"| {name} | {text} |".replace("|  |", "| |") for name, text in sorted(named.items())]


def test_the_page_has_what_each_api_asks() -> None:
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| API")]
    assert found == rows()
