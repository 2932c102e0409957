"""Runs of the pipeline: their states, stages, events and artifacts."""
