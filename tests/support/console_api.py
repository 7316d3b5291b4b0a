"""Answers of the console's API, beside what its description says of them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from kraft.console import openapi
from tests.support.console_browser import Answer


@cache
def described() -> Any:
    """Return the description as a script reads it."""
    return json.loads(json.dumps(openapi.description()))


@cache
def _validator(path: str, method: str, status: str) -> Validator:
    answers = described()["paths"][path][method]["responses"]
    schema = answers.get(status, answers["default"])["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": described()["components"]})


def assert_fits(pattern: str, method: str, answer: Answer) -> None:
    """Check an answer of the route with this pattern against its schema."""
    path = openapi.IN_PATH.sub(r"{\1}", pattern)
    _validator(path, method, str(answer.status)).validate(json.loads(answer.text))
