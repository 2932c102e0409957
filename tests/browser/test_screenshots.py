"""The images of the README are those that `make screenshots` takes."""

import struct

import pytest

from tests.browser.screenshots import OF_README, README_SIZE, ROOT


@pytest.mark.parametrize("name", OF_README.values())
def test_an_image_of_the_readme_has_the_size_of_the_command(name: str) -> None:
    header = (ROOT / "docs" / name).read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (README_SIZE["width"], README_SIZE["height"])
    assert f"](docs/{name})" in (ROOT / "README.md").read_text("utf-8")
