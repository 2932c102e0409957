"""torch's dtypes by the names that cases, plans and documents use."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kernels.ops import DType

DTYPES: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""torch's dtype of each `kernels.ops.DType`."""

DTYPE_NAMES: "dict[torch.dtype, DType]" = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
"""The name of each of these dtypes."""
