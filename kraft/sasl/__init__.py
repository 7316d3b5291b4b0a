"""SASL: one machine for each mechanism, without sockets, threads, clock or chance (RFC 4422)."""
