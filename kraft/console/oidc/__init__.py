"""Logins at an OpenID provider, whose access token goes on to the brokers (ADR 64)."""
