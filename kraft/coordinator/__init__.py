"""Decisions of coordinators: groups, their offsets, and transactions. Pure: no clock, no disk, no network."""
