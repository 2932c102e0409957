"""Secrets that an installation makes for itself, and the folder of its data, where it keeps them."""

import contextlib
import os
import secrets
from pathlib import Path


def own_folder(path: Path) -> None:
    """Makes the folder, and closes it to everybody but its owner and its group."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o007:
        path.chmod(status.st_mode & 0o770)


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
