"""How long the CUDA kernels are, with their own headers, tiles left out: the table of docs/kernels/tiles.md is true."""

import re
from pathlib import Path

import pytest

from tests.kernels.cuda_sources import code_lines, own_headers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kernels" / "tiles.md"
AIM = {"attention": 200, "blackwell": 150, "blackwell/flash.cu": 200, "fft": 150, "gemm": 150, "megakernel/cuda": 150}
"""Lines of code that a plain kernel of each room, or this one, should not exceed."""
SLACK = 15
"""Lines that the table may say more than the kernel has: it is not edited for every line."""

KERNELS = sorted(path for room in AIM for path in (ROOT / "kernels" / room).glob("*.cu"))


def table() -> dict[str, tuple[int, str, str]]:
    """Lines, files and reason by kernel, from the page."""
    rows = re.findall(r"^\| `([\w/]+\.cu)` \| ([\d,]+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.M)
    return {name: (int(lines.replace(",", "")), files, reason) for name, lines, files, reason in rows}


def room_of(path: Path) -> str:
    return str(path.parent.relative_to(ROOT / "kernels"))


def name_of(path: Path) -> str:
    return f"{room_of(path)}/{path.name}"


def test_the_table_names_every_kernel_above_the_aim_and_no_other() -> None:
    lines = {path: sum(map(code_lines, (path, *own_headers(path)))) for path in KERNELS}
    long = {path for path in KERNELS if lines[path] > AIM.get(name_of(path), AIM[room_of(path)])}
    assert set(table()) == set(map(name_of, long))


@pytest.mark.parametrize("kernel", [each for each in KERNELS if name_of(each) in table()], ids=name_of)
def test_the_table_says_how_long_a_kernel_is_and_why(kernel: Path) -> None:
    files = [kernel, *own_headers(kernel)]
    lines = sum(map(code_lines, files))
    said, named, reason = table()[name_of(kernel)]
    assert 0 <= said - lines <= SLACK, lines
    assert {f"`{file.name}`" for file in files[1:]} == set(re.findall(r"`\w+\.cuh`", named))
    assert reason
