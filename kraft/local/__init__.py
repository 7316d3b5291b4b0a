"""Nodes as processes on this machine, for the command line, tests, the chaos suite and benchmarks."""
