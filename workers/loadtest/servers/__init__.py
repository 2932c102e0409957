"""What the load stage puts under load: before and after. Definitions: `docs/method.md`."""
