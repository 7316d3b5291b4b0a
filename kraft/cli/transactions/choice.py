"""Option by which commands of `kraft transactions` name a broker."""

from __future__ import annotations

from typing import Annotated

import typer

BrokerIdOption = Annotated[
    int | None,
    typer.Option("--broker-id", min=0, help="Ask this broker about its replicas, not the leaders.", show_default=False),
]
