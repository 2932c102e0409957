"""Before and after under rising load, inside the load stage. Definitions: `docs/method.md`."""
