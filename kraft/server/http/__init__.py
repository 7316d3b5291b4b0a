"""HTTP for scrapes and probes: a listener in a thread of its own, and the routes that answer."""
