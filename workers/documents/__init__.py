"""The documents that browser, API, command line and workers share. Pydantic only: no Django, no torch."""
