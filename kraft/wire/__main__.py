"""`python -m kraft.wire FetchRequest 12` prints the source that decodes and encodes one version of a message."""

from __future__ import annotations

import sys

from kraft.wire.api_keys import ApiKey, request_type, response_type
from kraft.wire.decoder import decoder_source
from kraft.wire.encoder import encoder_source

_USAGE = "usage: python -m kraft.wire MESSAGE VERSION, for example FetchRequest 12"


def main(arguments: list[str]) -> int:
    messages = {message.__name__: message for key in ApiKey for message in (request_type(key), response_type(key))}
    match arguments:
        case [name, version] if name in messages and version.isdecimal() and int(version) in messages[name].versions:
            for source in (decoder_source(messages[name], int(version)), encoder_source(messages[name], int(version))):
                sys.stdout.write(source.text() + "\n")
            return 0
        case [name, _] if name in messages:
            sys.stderr.write(f"{name} has versions {messages[name].versions}\n")
        case _:
            sys.stderr.write(_USAGE + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
