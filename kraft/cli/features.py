"""`kraft features`: the feature levels of the cluster."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import print_json

app = typer.Typer(help="Describe and upgrade the feature levels of the cluster.", no_args_is_help=True)


@app.command("describe")
def describe(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show each feature's level, and the supported levels.

    Supported are the levels that every registered broker supports.
    """

    with open_admin(bootstrap_server, timeout_ms) as admin:
        described = admin.describe_features()
    if output is Output.JSON:
        print_json({"epoch": described.epoch, "features": [asdict(each) for each in described.features]})
        return
    for each in described.features:
        # Line for line as kafka-features.sh prints it.
        print(
            f"Feature: {each.feature}\tSupportedMinVersion: {each.min_level}\tSupportedMaxVersion: {each.max_level}\t"
            f"FinalizedVersionLevel: {each.finalized_level}\tEpoch: {described.epoch}"
        )


@app.command("upgrade")
def upgrade(
    feature: Annotated[
        list[str],
        typer.Option(
            "--feature", metavar="NAME=LEVEL", help="Feature and its new level. May be repeated; all change or none."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the change without making it.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Raise feature levels for good. Every node has to support the new level."""

    levels = _levels(feature)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        changed = admin.update_features(levels, validate_only=dry_run)
    if output is Output.JSON:
        print_json({"upgraded": {} if dry_run else changed, "possible": changed if dry_run else {}})
        return
    verb = "can be" if dry_run else "was"
    for name, level in levels.items():
        print(f"{name} {verb} upgraded to {level}." if name in changed else f"{name} is already at {level}.")


def _levels(texts: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not name or not level.isascii() or not level.isdigit() or len(level) > 5:
            raise typer.BadParameter(f"{text!r} is not NAME=LEVEL", param_hint="--feature")
        if name in found:
            raise typer.BadParameter(f"{name} is given twice: give it once", param_hint="--feature")
        found[name] = int(level)
    return found
