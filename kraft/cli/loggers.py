"""`kraft brokers loggers`: the levels of a broker's loggers while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.cli.options import Output, key_values
from kraft.cli.printing import print_columns, print_json

if TYPE_CHECKING:
    from kraft.client import Admin


def change_and_show(admin: Admin, broker_id: int, to_set: list[str], to_delete: list[str], output: Output) -> None:
    """Set levels given as NAME=LEVEL and delete others, then print all."""
    if to_set or to_delete:
        levels = {name: level.upper() for name, level in key_values(to_set, "--set").items()}
        admin.alter_broker_loggers(broker_id, levels, delete=to_delete)
    loggers = admin.describe_broker_loggers(broker_id)
    if output is Output.JSON:
        print_json({"broker_id": broker_id, "loggers": loggers})
    else:
        print_columns(("Logger", "Level"), list(loggers.items()))
