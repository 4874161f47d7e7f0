"""job.yaml, node sets."""
