"""The words every other package speaks: identifiers, errors, and the values of requests and answers."""
