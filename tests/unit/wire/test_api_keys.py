from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kraft.wire.schema
from kraft.wire.api_keys import ApiKey, request_type, response_type

SCHEMA = Path(kraft.wire.schema.__file__).parent


@pytest.mark.parametrize("api_key", ApiKey)
def test_every_api_has_a_request_and_a_response_of_the_same_versions(api_key: ApiKey) -> None:
    request, response = request_type(api_key), response_type(api_key)
    assert request.message_key == response.message_key == api_key
    assert request.versions == response.versions
    assert request.flexible == response.flexible
    assert (request.__name__[:-7], response.__name__[:-8]) == (api_key.name.title().replace("_", ""),) * 2


def test_every_file_of_declarations_belongs_to_an_api() -> None:
    files = {file.stem for file in SCHEMA.glob("*.py")} - {"__init__", "consumer_protocol"}
    assert files == {api_key.name.lower() for api_key in ApiKey}


@pytest.mark.parametrize("number", [-1, 4, 999])
def test_a_number_that_is_no_api_is_a_key_error(number: int) -> None:
    with pytest.raises(KeyError):
        request_type(number)
    with pytest.raises(KeyError):
        response_type(number)


def test_a_declaration_is_imported_when_it_is_first_asked_for() -> None:
    program = (
        "import sys\n"
        "from kraft.wire.frame import decode_request_header\n"
        "def declared(): return {name.rpartition('.')[2] for name in sys.modules if '.schema.' in name}\n"
        "assert declared() == set(), declared()\n"
        "decode_request_header(bytes.fromhex('000c 0003 00000007 ffff'))\n"
        "assert declared() == {'heartbeat'}, declared()\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert finished.returncode == 0, finished.stderr
