"""`python -m kraft` is the `kraft` command, for where the script is not on the path."""

from __future__ import annotations

from kraft.cli.main import main

if __name__ == "__main__":
    main()
