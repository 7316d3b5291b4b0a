"""The nemesis: injects faults that a seed chooses."""
