"""Producer, Consumer and Admin for threads, which run `kraft.client.aio` on an event loop in a thread of its own."""
