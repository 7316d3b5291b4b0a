"""Fixtures of more than one file: the record codec, interpreted and compiled."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.support.log.codec_variants import compiled_codec, pure_codec


@pytest.fixture(scope="module", params=["pure", "compiled"])
def codec(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "pure":
        return pure_codec()
    compiled = compiled_codec()
    if compiled is None:
        pytest.skip("the record codec is not compiled here")
    return compiled
