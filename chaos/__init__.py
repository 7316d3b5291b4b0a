"""Real processes, real faults, and a history that is judged afterwards: `python -m chaos --help`."""
