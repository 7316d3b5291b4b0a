"""Authorization: who asks, and for each family of APIs what a request needs and what the refused part is told."""
