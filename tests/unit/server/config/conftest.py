"""Fixtures that load a configuration file from its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.loading import ConfigError, load
from kraft.server.config.node_config import NodeConfig
from tests.unit.server.config.files import Load, Refuse


@pytest.fixture(name="load_text")
def _load_text(tmp_path: Path) -> Load:
    def load_text(text: str) -> NodeConfig:
        file = tmp_path / "server.properties"
        file.write_text(text)
        return load(file)

    return load_text


@pytest.fixture
def refused(load_text: Load) -> Refuse:
    def refused(text: str) -> str:
        with pytest.raises(ConfigError) as raised:
            load_text(text)
        message = str(raised.value)
        assert "\n" not in message
        assert "server.properties" in message
        return message

    return refused
