"""Names of a model's operations, the same from a trace and from the shapes pass.

A *scope* is a stretch of the model's code that names its work. A **unit** is one operation however many kernels it
takes (a linear layer, a norm, the rotary embedding). In an **own** scope, that of a module with children, each
operation is named after the module and itself.
"""

from typing import NamedTuple

PREFIX = "wb:"
SAMPLING = "sampling"
BOOKKEEPING = "token bookkeeping"
INPUT_AND_OUTPUT = "input and output"
UNATTRIBUTED = "unattributed"
"""The name of work that neither its place nor its name tells. It is never counted as attributed."""

COPIES, ELEMENTWISE = "copies", "elementwise"
NOT_ATTRIBUTED = (UNATTRIBUTED, COPIES, ELEMENTWISE)
"""Names that tell no operation: the last two say what kind of kernel ran, and not for what."""

CONVOLUTION = "convolution "
ALL_REDUCE = "sum over the GPUs"
EXPERTS, ROUTER, ROUTING = "experts", "linear router", "routing"
"""Of a mixture of experts: the experts' products, the router's, and all that chooses, sorts and sums up."""

_MATRIX = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum")
_ATTENTION = (*_MATRIX, "softmax", "_softmax", "masked_fill", "where", "dropout")
_LAYOUT = ("copy", "contiguous", "clone", "reshape", "transpose", "expand", "view", "to", "_to_copy", "permute", "cat")
_SAMPLING = (
    *("argmax", "max", "topk", "sort", "softmax", "_softmax", "log_softmax", "multinomial", "exponential", "cumsum"),
    *("masked_fill", "scatter", "gather", "div"),
)
_BOOKKEEPING = (
    *("add", "sub", "rsub", "mul", "and", "or", "not", "bitwise_not", "bitwise_and", "bitwise_or", "logical_not"),
    *("logical_and", "logical_or", "eq", "ne", "lt", "le", "gt", "ge", "all", "any", "sum", "isin", "where"),
    *("arange", "ones", "zeros", "full", "empty", "ones_like", "zeros_like", "full_like", "empty_like", "new_ones"),
    *("new_zeros", "new_full", "lift_fresh", "scalar_tensor", "fill", "zero", "cat", "stack", "clone", "copy", "to"),
    *("_to_copy", "contiguous", "detach", "select", "slice", "index", "index_select", "index_put", "unsqueeze"),
    *("squeeze", "expand", "repeat", "view", "reshape", "flatten", "transpose", "permute", "item", "is_nonzero"),
    *("_local_scalar_dense", "resolve_conj", "resolve_neg"),
)
_MIXTURE = ("Experts", "Router", "MoeBlock")
"""How the classes of a mixture's parts end; what is added up in its block is no residual."""
_RESIDUAL = ("Layer", "Block", "Output", "LayerFF", "LayerSelfAttention", "LayerCrossAttention")
"""How the classes end in which a residual is added: those of decoders and ViT, then BERT's, then T5's."""
_WHOLE_MODELS = ("Model", "ForCausalLM", "LMHeadModel")
_GENERIC_TAILS = ("dense", "proj", "decoder", "linear", "fc", "out")


class TraceScope(NamedTuple):
    """`kind`: unit, own or step (one forward pass; `name` is then its phase)."""

    kind: str
    name: str
    owner: str = ""

    @property
    def record(self) -> str:
        """The annotation's text in the trace."""
        return f"{PREFIX}{self.kind}:{self.name}:{self.owner}"


def parse_scope(record: str) -> TraceScope | None:
    """The scope that a profiler annotation stands for; None for annotations that this package did not write."""
    if not record.startswith(PREFIX):
        return None
    kind, _, rest = record.removeprefix(PREFIX).partition(":")
    name, _, owner = rest.rpartition(":")
    return TraceScope(kind, name, owner)


def tail_of(path: str) -> str:
    """The last name of a module's path, without layer numbers: `q_proj` for layer 3's `self_attn.q_proj`."""
    parts = [part for part in path.split(".") if part and not part.isdigit()]
    if len(parts) > 1 and parts[-1] in _GENERIC_TAILS:
        return ".".join(parts[-2:])
    return parts[-1] if parts else "model"


def plain_op(operation: str) -> str:
    """`aten::add_`, `__radd__` and `add` are all `add`."""
    name = operation.removeprefix("aten::").strip("_") if "__" in operation else operation.removeprefix("aten::")
    name = name.rstrip("_") or operation
    return name[1:] if operation.startswith("__r") and name.startswith("r") else name


def label(scope: TraceScope | None, operation: str, phase: str) -> str:
    """The name of the model operation that `operation` is part of.

    `operation` is an aten or torch function, or empty where a kernel was launched outside all of them. Outside every
    module only the usual functions of a generation loop have a name, or in the phase `forward`, of models that do not
    generate, those that make the input and read the output; other work there is UNATTRIBUTED.
    """
    name = plain_op(operation)
    if scope is None:
        return _around_the_model(name, generates=phase != "forward")
    if scope.kind == "unit":
        return scope.name
    if "scaled_dot_product" in name:
        return "attention"
    if scope.owner.endswith(_MIXTURE):
        return _of_experts(name, scope)
    if name == "add" and scope.owner.endswith(_RESIDUAL):
        return "residual add"
    if "Attention" in scope.owner:
        in_layout = "attention layout" if name in _LAYOUT else _own_label(name, scope)
        return "attention" if name in _ATTENTION else in_layout
    if name == "mul" and scope.owner.endswith("MLP"):
        return "gated activation"
    if scope.owner.endswith(_WHOLE_MODELS):
        return _at_the_top(name, scope)
    return _own_label(name, scope)


def _around_the_model(name: str, generates: bool) -> str:
    if not generates:
        return INPUT_AND_OUTPUT if name in (*_SAMPLING, *_BOOKKEEPING) else UNATTRIBUTED
    if name in _SAMPLING:
        return SAMPLING
    return BOOKKEEPING if name in _BOOKKEEPING else UNATTRIBUTED


def _at_the_top(name: str, scope: TraceScope) -> str:
    """Work in the model's own forward. A kernel that no function launched could be anything there."""
    if name in _BOOKKEEPING:
        return "mask and positions"
    return _own_label(name, scope) if name else UNATTRIBUTED


def _of_experts(name: str, scope: TraceScope) -> str:
    """Work in a mixture's experts, in its router, or in the block of both."""
    if scope.owner.endswith("Router"):
        return ROUTER if name in _MATRIX else ROUTING
    if scope.owner.endswith("Experts") and name in (*_MATRIX, "_grouped_mm"):
        return EXPERTS
    return "gated activation" if scope.owner.endswith("Experts") and name == "mul" else ROUTING


def _own_label(name: str, scope: TraceScope) -> str:
    return f"{scope.name} ({scope.owner}) {name or 'own kernel'}"
