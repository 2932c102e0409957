"""Intake: models, their uploads, and workloads."""
