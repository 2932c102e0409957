"""The REST API under /api/v1/: one frame of authentication, errors, paging and limits for every router."""
