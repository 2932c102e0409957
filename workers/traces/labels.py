"""Names of a model's operations, the same from a trace and from the shapes pass.

A *scope* is a stretch of the model's code that names its work. A **unit** is one operation however many kernels it
takes (a linear layer, a norm, the rotary embedding). In an **own** scope, that of a module with children, each
operation is named after the module and itself.
"""

from typing import NamedTuple

PREFIX = "wb:"
SAMPLING = "sampling"
UNATTRIBUTED = "unattributed"

_MATRIX = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum")
_ATTENTION = (*_MATRIX, "softmax", "_softmax", "masked_fill", "where", "dropout")
_LAYOUT = ("copy", "contiguous", "clone", "reshape", "transpose", "expand", "view", "to", "_to_copy", "permute", "cat")
_GENERIC_TAILS = ("dense", "proj", "decoder", "linear", "fc", "out")


class Scope(NamedTuple):
    """`kind`: unit, own or step (one forward pass; `name` is then its phase)."""

    kind: str
    name: str
    owner: str = ""

    @property
    def record(self) -> str:
        """The annotation's text in the trace."""
        return f"{PREFIX}{self.kind}:{self.name}:{self.owner}"


def parse(record: str) -> Scope | None:
    """The scope that a profiler annotation stands for; None for annotations that this package did not write."""
    if not record.startswith(PREFIX):
        return None
    kind, _, rest = record.removeprefix(PREFIX).partition(":")
    name, _, owner = rest.rpartition(":")
    return Scope(kind, name, owner)


def tail_of(path: str) -> str:
    """The last name of a module's path, without layer numbers: `q_proj` for layer 3's `self_attn.q_proj`."""
    parts = [part for part in path.split(".") if not part.isdigit()]
    if len(parts) > 1 and parts[-1] in _GENERIC_TAILS:
        return ".".join(parts[-2:])
    return parts[-1] if parts else "model"


def plain(operation: str) -> str:
    """`aten::add_`, `__radd__` and `add` are all `add`."""
    name = operation.removeprefix("aten::").strip("_") if "__" in operation else operation.removeprefix("aten::")
    name = name.rstrip("_") or operation
    return name[1:] if operation.startswith("__r") and name.startswith("r") else name


def label(scope: Scope | None, operation: str) -> str:
    """The name of the model operation that `operation` (an aten or torch function) is part of."""
    if scope is None:
        return SAMPLING
    if scope.kind == "unit":
        return scope.name
    name = plain(operation)
    if "scaled_dot_product" in name:
        return "attention"
    if "Attention" in scope.owner:
        return "attention" if name in _ATTENTION else _attention_part(name, scope)
    if name == "add" and scope.owner.endswith(("Layer", "Block")):
        return "residual add"
    if name == "mul" and scope.owner.endswith("MLP"):
        return "gated activation"
    if scope.owner.endswith(("Model", "ForCausalLM", "LMHeadModel")) and name not in _MATRIX:
        return "mask and positions"
    return f"{scope.name} ({scope.owner}) {name}"


def _attention_part(name: str, scope: Scope) -> str:
    return "attention layout" if name in _LAYOUT else f"{scope.name} ({scope.owner}) {name}"
