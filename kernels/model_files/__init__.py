"""Torch-free checks of the files a customer hands in: what is refused and why, and the facts of what is taken."""

from kernels.model_files.answers import AnswerKind, answer_of, answer_of_config
from kernels.model_files.content_checks import check_paths
from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import Tensor, read_header
from kernels.model_files.inspection import (
    ModelFacts,
    check_config_size,
    files_at,
    inspect,
    inspect_config,
    inspect_config_file,
    is_quantised,
)
from kernels.model_files.memory import kv_bytes_per_token, needed_bytes
from kernels.model_files.positions import longest_sequence
from kernels.model_files.selection import Selection, gguf_file, select_files, select_in

__all__ = [
    "AnswerKind",
    "ModelFacts",
    "ModelRefused",
    "Selection",
    "Tensor",
    "answer_of",
    "answer_of_config",
    "check_config_size",
    "check_paths",
    "files_at",
    "gguf_file",
    "inspect",
    "inspect_config",
    "inspect_config_file",
    "is_quantised",
    "kv_bytes_per_token",
    "longest_sequence",
    "needed_bytes",
    "read_header",
    "select_files",
    "select_in",
]
