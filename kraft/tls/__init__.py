"""TLS: where keys and certificates come from, and the contexts and transports that use them."""
