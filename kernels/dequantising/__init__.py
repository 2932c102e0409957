"""Quantised models become a directory in bf16, in a process: tokenizers may end it. Imports without torch."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernels.cuda.nvrtc import cache_directory
from kernels.model_files import ModelRefused, files_at, inspect, is_quantised
from kernels.model_files.digests import SOURCE_HASHES, content_digest, hash_of
from kernels.model_files.gguf import SUFFIX


def plain_model(source: Path, folder: Path | None = None) -> Path:
    """The model at `source`, a directory or a GGUF file, as a directory in bf16: itself, or `folder`, made unless it is
    there (default: in the user's cache). Raises ModelRefused.
    """
    if source.is_file() and source.suffix != SUFFIX:
        raise ModelRefused(source.name, "", "a model is a directory or a GGUF file")
    files = files_at(source)
    if not is_quantised(files):
        return source
    files = {path: files[path] for path in inspect(files).files}
    hashes = {path: hash_of(at) for path, at in files.items()}
    folder = folder or cache_directory() / "dequantised" / content_digest(hashes.items())
    if folder.is_dir():
        return folder
    print(f"{source.name}: dequantising its weights, once, into {folder}", file=sys.stderr, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        (draft / SOURCE_HASHES).write_text(json.dumps(list(hashes.items())))
        _convert(files, draft)
        if not folder.is_dir():  # another process may have been faster
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _convert(files: Mapping[str, Path], folder: Path) -> None:
    request = json.dumps({"files": {path: str(at.absolute()) for path, at in files.items()}, "folder": str(folder)})
    command = [sys.executable, "-m", f"{__name__}.convert"]
    done = subprocess.run(command, input=request, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        raise ModelRefused(next(iter(files)), "", f"reading the weights or the tokenizer ends the process ({how})")
    if refused := json.loads(done.stdout.splitlines()[-1]):
        raise ModelRefused(**refused)
