"""Sharing the event loop: waiting requests, memory budgets, long work in turns and threads, background tasks."""
