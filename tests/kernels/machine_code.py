"""Prints a digest of the machine code of every kernel that the tests compile, to prove that a change altered none.

    python -m tests.kernels.machine_code > before.txt
    python -m tests.kernels.machine_code --against before.txt

The first prints a line a build: its digest, its source and the test that made it. A CUDA source counts with its SASS,
a Triton kernel with its PTX; symbol names and line information are left out. The second prints the builds of each
source whose digests differ, and ends with status 1 where there are any. Builds are kept below `--cache`, by the content
of their sources, their macros and the compiler's version.
"""

import argparse
import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.kernels.build_cache import cached_build

KEPT = "MACHINE_CODE"
"""The environment variable that names the folder of builds that are listed. Where it is not set, none are."""

_HERE = Path(__file__).parent


def recorded(source: str, content: bytes, build: Callable[[], tuple[str, bytes]], kind: str) -> tuple[str, bytes]:
    """The log and binary of a build, made once for each `content`; with `$MACHINE_CODE` kept there and noted for the
    listing by `source`. `kind` is "cubin" or "ptx".
    """
    folder, once = os.environ.get(KEPT), cache(build)
    where = Path(folder) if folder else None
    log = cached_build(content, "log", lambda into: into.write_text(once()[0]), where)
    code = cached_build(content, kind, lambda into: into.write_bytes(once()[1]), where)
    if folder:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
        with Path(folder, "builds.jsonl").open("a") as notes:
            notes.write(json.dumps({"source": source, "test": test, "code": code.name}) + "\n")
    return log.read_text(), code.read_bytes()


def digest(code: Path) -> str:
    """Digest of a cubin's SASS, or of a PTX text, without names and lines. The order of the functions has no effect."""
    functions = _ptx(code.read_text()) if code.suffix == ".ptx" else _sass(code)
    return hashlib.sha256("\n\n".join(sorted(functions)).encode()).hexdigest()[:16]


def _ptx(text: str) -> Iterator[str]:
    text = text.split("\t.section\t.debug")[0]
    for number, name in enumerate(re.findall(r"\.entry (\w+)", text)):
        text = text.replace(name, f"kernel{number}")
    text = re.sub(r"//.*|\$L__tmp\d+:|\.(loc|file)\b.*", "", text)
    yield "\n".join(line.strip() for line in text.splitlines() if line.strip())


def dumped(what: str, cubin: Path) -> str:
    """What `cuobjdump` of Triton's wheel prints of a cubin: `--dump-sass` or `--dump-resource-usage`."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return subprocess.run([tool, what, cubin], capture_output=True, text=True, check=True).stdout


def _sass(cubin: Path) -> Iterator[str]:
    taken = dict(re.findall(r"Function (\w+):\n(.*)", dumped("--dump-resource-usage", cubin)))
    for part in dumped("--dump-sass", cubin).split("Function : ")[1:]:
        name = part.split(None, 1)[0]
        yield taken[name] + "\n" + "\n".join(re.findall(r"/\*[0-9a-f]{4,}\*/.*|/\* 0x[0-9a-f]{16} \*/", part))


def listing(folder: Path) -> Iterator[str]:
    """A line a build, sorted: digest, source, test."""
    digests: dict[str, str] = {}
    lines = set()
    for line in (folder / "builds.jsonl").read_text().splitlines():
        build = json.loads(line)
        name = build["code"]
        digests[name] = digests.get(name) or digest(folder / name)
        lines.add((build["source"], build["test"], digests[name]))
    for source, test, result in sorted(lines):
        yield f"{result}  {source}  {test}"


def different(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """For each source the digests that only one listing has, each with a test that made it."""

    def counted(lines: Iterable[str]) -> Counter[str]:
        return Counter(line.split()[0] for line in lines)

    old, new = list(before), list(after)
    gone, come = counted(old) - counted(new), counted(new) - counted(old)
    return sorted(
        f"{line.split('  ', 1)[1]}  {sign}{line.split()[0]}"
        for sign, lines, only in (("-", old, gone), ("+", new, come))
        for line in lines
        if line.split()[0] in only
    )


def _tests() -> list[str]:
    """The test files that compile."""
    word = re.compile(r"from tests\.kernels\.(triton_)?compiling import")
    return [str(path) for path in sorted(_HERE.rglob("test_*.py")) if word.search(path.read_text())]


class _OnlyCompiling:
    """A pytest plugin that leaves out the tests of those files that compile nothing."""

    CALLS = re.compile(r"\b(compile_log|sass|assembled|stack_bytes)\(")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.CALLS.search(inspect.getsource(item.function))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Digests of the machine code of every kernel that the tests compile.")
    parser.add_argument("--against", type=Path, help="an earlier listing to compare with")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the builds for the next time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as fresh:
        folder = (asked.cache or Path(fresh)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "builds.jsonl").write_text("")
        os.environ[KEPT] = str(folder)
        with Path(fresh, "tests.log").open("w+") as log:
            out, sys.stdout = sys.stdout, log
            failed = pytest.main(["-q", "-p", "no:cacheprovider", *_tests()], plugins=[_OnlyCompiling()])
            sys.stdout = out
            log.seek(0)
            print(log.read(), file=sys.stderr)
        lines = list(listing(folder))
    if failed:
        return int(failed)
    if asked.against is None:
        print("\n".join(lines))
        return 0
    result = different(asked.against.read_text().splitlines(), lines)
    print("\n".join(result) or f"{len(lines)} builds, all equal")
    return bool(result)


if __name__ == "__main__":
    sys.exit(main())
