"""What customers hand in: models, their uploads, and workloads."""
