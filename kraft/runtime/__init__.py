"""The world as arguments: time, randomness and disks, each behind an interface that a simulation can stand in for."""
