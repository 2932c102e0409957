"""The pages about the REST API, read from its OpenAPI document. They need no login and no JavaScript."""
