"""How far groups are behind: their commits and the ends of logs over the last minutes, and what these say of a group.

It is a memory of this broker: a coordinator that has just begun knows only what it saw since, and says so
(`completeness`). Source: Burrow, whose states and rules operators know.
"""
