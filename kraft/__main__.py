"""Run the `kraft` command as `python -m kraft`, for a path without the script."""

from __future__ import annotations

from kraft.cli.main import main

if __name__ == "__main__":
    main()
