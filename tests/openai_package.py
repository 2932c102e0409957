"""OpenAI's own client, which `make setup` installs apart, by the pins of `constraints/clients.txt`."""

import sys
from pathlib import Path

PACKAGES = Path(sys.prefix) / "clients"
"""A folder for the PYTHONPATH of a process of its own."""
