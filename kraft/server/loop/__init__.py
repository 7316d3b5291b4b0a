"""What shares the event loop: requests that wait, memory budgets, long work in turns and threads, background tasks."""
