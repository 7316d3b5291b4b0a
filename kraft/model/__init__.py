"""The types that every other package uses: identifiers, errors, and requests and responses as values."""
