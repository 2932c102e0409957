"""Write constraints/hashes-cpu.txt and hashes-gpu.txt, by which the images are installed: `make pin-hashes`.

A line is a pin of constraints/ with the SHA-256 of every wheel that the image's Python may take of it. uv asks the
package index for them and downloads no wheel. What only tests need is left out, and so is torch's CPU build: it lies in
an index of its own, under the version that PyPI has for the CUDA build.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

FOLDER = Path(__file__).parents[1] / "constraints"
PYTHON = (3, 12)
"""Of the image that Dockerfile begins with."""
GLIBC_MINOR = 36
"""Of glibc 2 in that image, Debian 12."""
HEAD = "# What the image installs, with the hashes of its wheels. Written by `make pin-hashes`.\n"


class NotPinned(Exception):
    """The hashes could not be had, in one sentence."""


def pins(flavour: str) -> list[str]:
    """What the image of the flavour installs with hashes."""
    tools = [re.compile(line) for line in (FOLDER / "test-tools.txt").read_text().splitlines() if line[0] != "#"]
    lines = [line for line in (FOLDER / f"{flavour}.txt").read_text().splitlines() if "==" in line and line[0] != "#"]
    result = [line for line in lines if not any(tool.search(line) for tool in tools)]
    return [line for line in result if flavour != "cpu" or not line.startswith("torch==")]


def image_tags() -> set[Tag]:
    """The tags of the wheels that the image's Python takes."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(5, GLIBC_MINOR + 1)]
    platforms += [*(f"{name}_x86_64" for name in ("manylinux1", "manylinux2010", "manylinux2014")), "linux_x86_64"]
    return {*cpython_tags(PYTHON, platforms=platforms), *compatible_tags(PYTHON, platforms=platforms)}


def locked(lines: list[str]) -> list[dict[str, Any]]:
    """The packages of the pins with their wheels, as pylock.toml (PEP 751) has them. Raises NotPinned."""
    uv = shutil.which("uv")
    if uv is None:
        raise NotPinned("uv is not on the PATH; `pip install uv` brings it")
    with tempfile.TemporaryDirectory() as folder:
        asked, lock = Path(folder, "pins.txt"), Path(folder, "pylock.toml")
        asked.write_text("\n".join(lines))
        command = [uv, "pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml", "--only-binary", ":all:"]
        platform = f"x86_64-manylinux_2_{GLIBC_MINOR}"
        command += ["--python-version", ".".join(map(str, PYTHON)), "--python-platform", platform]
        if subprocess.run([*command, str(asked), "--output-file", str(lock)], stdout=subprocess.DEVNULL).returncode:
            raise NotPinned("uv could not resolve the pins, see above")
        packages: list[dict[str, Any]] = tomllib.loads(lock.read_text())["packages"]
    return packages


def hashed(lines: list[str], packages: list[dict[str, Any]], fitting: set[Tag]) -> Iterator[str]:
    """Each pin with its hashes. Raises NotPinned for one without a wheel that fits."""
    wheels = {package["name"]: package.get("wheels", []) for package in packages}
    for line in lines:
        hashes = [
            wheel["hashes"]["sha256"]
            for wheel in wheels.get(canonicalize_name(line.partition("==")[0]), [])
            if parse_wheel_filename(wheel["url"].rpartition("/")[2].replace("%2B", "+"))[3] & fitting
        ]
        if not hashes:
            raise NotPinned(f"{line} has no wheel for the image's Python")
        yield " ".join([line, *(f"--hash=sha256:{item}" for item in sorted(hashes))])


def main() -> int:
    """The exit status is 1 when a pin has no hash; nothing is written then."""
    texts = {}
    for flavour in ("cpu", "gpu"):
        try:
            lines = pins(flavour)
            texts[flavour] = HEAD + "\n".join(hashed(lines, locked(lines), image_tags())) + "\n"
        except NotPinned as problem:
            print(f"pin-hashes: {problem}", file=sys.stderr)
            return 1
    for flavour, text in texts.items():
        (FOLDER / f"hashes-{flavour}.txt").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
