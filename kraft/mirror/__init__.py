"""Topics copied from cluster to cluster: `kraft mirror`. Its words: docs/mirror.md; its reasons: ADR 67."""
