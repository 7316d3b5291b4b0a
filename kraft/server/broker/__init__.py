"""The broker role: registration, session and controlled shutdown, and how its parts are put together."""
