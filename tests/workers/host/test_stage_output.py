"""What a stage leaves is read only where it is a plain file of the stage's own: nothing else blocks or leads away."""

import os
import signal
from pathlib import Path

import pytest

from workers.host.stage_output import open_plain, read_end, read_stage_document

REFUSALS = {
    "link": "Too many levels of symbolic links",
    "kept/secret": "Not a directory",
    "twin": "twin is not a plain file",
    "folder": "folder is not a plain file",
    "missing": "No such file",
}


def test_a_plain_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/note").write_text("yes")
    with open_plain(tmp_path, "kept/note") as file:
        assert file.read() == b"yes"
    assert read_stage_document(tmp_path, "kept/note") == "yes"
    assert read_end(tmp_path, "kept/note", 2) == "es"


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    """An ordinary open would wait for a writer for ever, so an alarm ends the test then."""
    os.mkfifo(tmp_path / "fifo")
    signal.alarm(20)
    with pytest.raises(OSError, match="fifo is not a plain file"):
        open_plain(tmp_path, "fifo")
    assert read_end(tmp_path, "fifo", 10) == ""
    signal.alarm(0)


def test_links_and_folders_are_refused(tmp_path: Path) -> None:
    outside, scratch = tmp_path / "outside", tmp_path / "scratch"
    outside.mkdir()
    scratch.mkdir()
    (outside / "secret").write_text("secret")
    (scratch / "link").symlink_to(outside / "secret")
    (scratch / "kept").symlink_to(outside)
    (scratch / "twin").hardlink_to(outside / "secret")
    (scratch / "folder").mkdir()
    for name, refusal in REFUSALS.items():
        with pytest.raises(OSError, match=refusal):
            open_plain(scratch, name)
        assert read_end(scratch, name, 10) == ""
