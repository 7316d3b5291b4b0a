"""`kraft sink`: records of topics into the index of a search engine, over its `_bulk` API."""
