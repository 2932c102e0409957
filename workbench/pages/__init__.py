"""Template filters and tags that every page shares."""
