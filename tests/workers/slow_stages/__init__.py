"""Stages whose import takes long."""

IMPORT_SECONDS = 4.0
