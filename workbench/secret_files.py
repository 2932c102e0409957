"""Secrets that an installation makes for itself and keeps beside its data."""

import contextlib
import os
import secrets
from pathlib import Path


def kept_secret(path: Path) -> str:
    """The secret in `path`, made on first use and readable by its owner alone; safe when processes race for it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text().strip()
