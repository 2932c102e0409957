"""The page after the login, and the example result."""
