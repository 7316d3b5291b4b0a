"""The pages: for each, what it asks the cluster, and what it shows as a frozen value, which /api gives as JSON."""
