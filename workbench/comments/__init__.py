"""Comments of members on runs and reports."""
