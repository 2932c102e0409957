"""A wheel that was built after `kernels compile` brings the kernels, which are found without a setting."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from kernels.cuda import nvrtc
from kernels.cuda.occupancy import EMPTY_BUILD

ROOT = nvrtc.PACKAGED.parents[1]
ASK = """
import json
from kernels.cuda import compiler, nvrtc, occupancy
compiler.compiled = None
ahead = nvrtc.prebuilt_file(occupancy.EMPTY_BUILD.name)
print(json.dumps([ahead and str(ahead), occupancy.EMPTY_BUILD.is_made, nvrtc.__file__]))
"""


def installed(tmp_path: Path) -> Path:
    """The folder of the files of a wheel that was built of this checkout, with a kernel compiled ahead."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(
        ROOT / "kernels", source / "kernels", ignore=shutil.ignore_patterns("__pycache__", nvrtc.PACKAGED.name)
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    EMPTY_BUILD.make_into(source / "kernels" / nvrtc.PACKAGED.name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_an_installation_finds_the_kernels_that_its_wheel_has(tmp_path):
    """And none once they are removed."""
    site = installed(tmp_path)
    packaged = site / "kernels" / nvrtc.PACKAGED.name
    settings = {name: value for name, value in os.environ.items() if name != nvrtc.PREBUILT}
    settings |= {"PYTHONPATH": str(site), "KERNELS_CACHE": str(tmp_path / "cache")}
    for expected in (str(packaged / EMPTY_BUILD.name), None):
        answer = subprocess.run(
            [sys.executable, "-c", ASK], cwd=tmp_path, env=settings, check=True, stdout=subprocess.PIPE
        ).stdout
        ahead, is_made, module = json.loads(answer)
        assert Path(module).is_relative_to(site)
        assert (ahead, is_made) == (expected, expected is not None)
        shutil.rmtree(packaged, ignore_errors=True)
