"""What shares the event loop: requests that wait, long work in turns, tasks that nobody awaits."""
