"""The broker role: registration, session and controlled shutdown, and the assembly of its parts."""
