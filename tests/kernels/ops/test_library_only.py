"""What is marked *library only* is what no runner uses: no more and no less, and each page says it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.__main__ import main
from kernels.cases import check_cases
from kernels.cli.list import LIBRARY_ONLY, library_only
from kernels.hardware import GPUS
from kernels.model.decoder import Decoder, refusal
from kernels.model.expert_tiles import can_tile, tile_experts
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.loading import skeleton
from kernels.model.striped_hyena import CONVOLUTIONS
from kernels.model_files import catalogue
from kernels.ops import AttentionCase, Case
from kernels.server.execution.ops import Usable, head_cases, packed_cases
from kernels.server.execution.shapes import PassShape
from tests.kernels.runners.engine_models import CONFIGS

PAGES = Path(__file__).parents[3] / "docs" / "kernels"
OPS = ("attention", "step_attention", "linear", "grouped", "rmsnorm", "gated", "rope", "lm_head", "fft_conv")
LENGTHS = {
    *("m", "n", "k", "batch", "heads", "kv_heads", "head_dim", "q_len", "kv_len", "vocab", "rows", "experts"),
    *("width", "length", "filter"),
    *("page_size", "dtype", "kv_dtype", "weights"),
}
"""Fields that may have any value without being another feature."""


def features(case: Case) -> set[tuple[str, str, Any]]:
    """(op, field, value) of every field that is no length and no dtype; a value that is a number or list is `given`."""
    plain = {name: value for name, value in case.model_dump().items() if name not in LENGTHS}
    return {
        (case.op, name, value if value is None or isinstance(value, bool | str) else "given")
        for name, value in plain.items()
    }


@pytest.fixture(scope="module")
def used() -> list[Case]:
    """The cases that the runners make of every family and traffic."""
    models = [skeleton(config, "bf16") for config in CONFIGS.values()]
    decoders = [Decoder(model) for model in models if not refusal(model)]
    assert len(decoders) >= 4
    alone = [
        case
        for decoder in decoders
        for batch in (1, 8)
        for case in LayerOps(decoder, BatchShape(batch, 128, 64)).cases()
    ]
    passes, gpu = (PassShape(8, 4, 4, 2), PassShape(8, 0, 4, 0)), GPUS["h200"]
    for model in (model for model in models if not refusal(model) and can_tile(model, gpu)):
        tile_experts(model)
        decoders.append(Decoder(model))
    served = [
        case
        for decoder in decoders
        for shape in passes
        for case in (*packed_cases(decoder, shape, 16, 256, Usable(gpu)), *head_cases(decoder, shape))
    ]
    return [*alone, *map(with_lengths, served), *convolutions()]


def convolutions() -> list[Case]:
    """Those of the decoder that has any."""
    model = skeleton(catalogue.entry("tiny-striped-hyena")[0], "bf16")
    modules = [module for module in model.modules() if isinstance(module, CONVOLUTIONS)]
    return [module.case(torch.empty(1, 128, 64, dtype=torch.bfloat16, device="meta")) for module in modules]


def with_lengths(case: Case) -> Case:
    """The server's attention is given the length of each sequence."""
    if not isinstance(case, AttentionCase):
        return case
    return case.model_copy(update={"kv_lengths": (case.kv_len,) * case.batch})


def test_no_runner_uses_what_is_marked_and_every_mark_is_proven(used: list[Case]) -> None:
    assert not {name for case in used for name in library_only(case)}
    proven = {name for op in OPS for case in check_cases(op, cpu=False) for name in library_only(case)}
    assert proven == set(LIBRARY_ONLY)


@pytest.mark.parametrize("op", OPS)
def test_every_other_feature_that_is_proven_is_used(op: str, used: list[Case]) -> None:
    made = set().union(*(features(case) for case in used))
    unmarked = [case for case in check_cases(op, cpu=False) if not library_only(case)]
    assert not set().union(*(features(case) for case in unmarked)) - made


def test_list_and_pages_name_what_no_runner_uses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    rows = {row["variant"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["grouped_blackwell_fp8"]["library_only"]
    assert not rows["flash_hopper"]["library_only"]
    wanted: dict[str, set[str]] = {}
    for variant in registry.variants():
        if variant.page:
            wanted.setdefault(variant.page, set()).update(rows[variant.name]["library_only_features"])
    named_on_page = {}
    for page in wanted:
        result = re.search(
            r"^\*Library only\*, used by no runner yet: (.+)\.$", (PAGES / f"{page}.md").read_text(), re.M
        )
        named_on_page[page] = set(result[1].split(", ")) if result else set()
    assert named_on_page == wanted
