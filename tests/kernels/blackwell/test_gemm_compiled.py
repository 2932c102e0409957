"""gemm_blackwell, grouped_blackwell as sm_100a code: no spills, expected instructions, budgets. They never ran."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernels.blackwell import grouped_tiles
from kernels.blackwell.gemm_call import SOURCE
from kernels.blackwell.gemm_tiles import ARCHITECTURE, THREADS, constants, space, tile_of
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.ops import GroupedCase, LinearCase
from tests.kernels.compiling import resources, sass

REGISTERS = 65_536
"""Registers of an SM: CUDA C++ Programming Guide, *Technical Specifications per Compute Capability*."""

KINDS: dict[str, tuple[dict[str, Any], str, int]] = {
    "bf16": ({}, "UTCHMMA", 0),
    "fp16": ({"dtype": "fp16", "weights": "fp16"}, "UTCHMMA", 0),
    "fp8": ({"weights": "fp8", "scales": "row"}, "UTCQMMA", 0),
    "mxfp8": ({"weights": "fp8", "scales": "block32"}, "UTCQMMA", 3),
    "nvfp4": ({"weights": "nvfp4", "scales": "block16"}, "UTCOMMA.4X", 12),
}
"""Fields of a case; the instruction of its products; copies of scales to TMEM in a stage of 256 columns."""


def case(fields: dict[str, Any]) -> LinearCase:
    return LinearCase(**{"m": 4096, "n": 4096, "k": 4096} | fields)


def instructions(source: Path, macros: Mapping[str, Any]) -> list[str]:
    """The names of the instructions of a kernel without spills, for whose registers an SM has room."""
    log, code = sass(source, macros, ARCHITECTURE)
    result = resources(log)
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert result.registers * THREADS <= REGISTERS
    return re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ )?([A-Z][\w.]*)", code)


@pytest.mark.parametrize(
    ("kind", "pair", "dynamic"),
    [("bf16", True, True), ("fp16", False, True), ("fp8", True, False), ("mxfp8", False, False), ("nvfp4", True, True)],
)
def test_it_compiles_to_the_instructions_of_the_fifth_generation(kind: str, pair: bool, dynamic: bool) -> None:
    fields, product, copies = KINDS[kind]
    shape = case(fields | {"epilogue": {"fp8": "swiglu", "fp16": "bias"}.get(kind, "residual")})
    tile = tile_of(shape, {"columns": 256, "pair": pair, "dynamic": dynamic})
    names = instructions(SOURCE, constants(shape, tile))
    product, *vector = product.split(".")
    asked = ".".join((product, *["2CTA"] * pair, *vector))
    assert names.count(asked) == 4, "four instructions of 32 bytes of K a stage"
    assert names.count(f"UTCCP.T.S{pair * '.2CTA'}.4x32dp128bit") == copies
    assert names.count("UTCBAR" + pair * ".2CTA.MULTICAST") == 2, "commits: to empty and to summed"
    requests = [name for name in names if name.startswith("UGETNEXTWORKID")]
    assert requests == ["UGETNEXTWORKID." + ("BROADCAST" if pair else "SELFCAST")] * dynamic
    assert {"UTMALDG.2D" + pair * ".2CTA", "UTMASTG.2D", "LDTM.x32"} <= set(names)
    sent = pair and copies > 0
    assert names.count("UTMALDG.3D" + pair * ".2CTA") == (2 - sent if copies else 0), "scales of x and of w"
    assert names.count("UTMALDG.3D.MULTICAST.2CTA") == sent, "scales of w, to both blocks"


@pytest.mark.parametrize(
    ("fields", "product", "experts", "pair"),
    [({"epilogue": "swiglu"}, "UTCHMMA", 8, False), ({"epilogue": "swiglu", "scales": "row"}, "UTCQMMA", 128, True)],
)
def test_the_grouped_product_compiles_to_them_as_well(fields, product, experts, pair):
    shape = GroupedCase(**{"rows": 4096, "experts": experts, "n": 4096, "k": 4096} | fields)
    tile = grouped_tiles.tile_of(shape, {"columns": 256, "pair": pair})
    names = instructions(grouped_tiles.SOURCE, grouped_tiles.constants(shape, tile))
    assert names.count(product + pair * ".2CTA") == 4, "four instructions of 32 bytes of K a stage"
    assert names.count("UTCBAR" + pair * ".2CTA.MULTICAST") == 2, "commits: to empty and to summed"
    assert {"UTMALDG.2D" + pair * ".2CTA", "UTMASTG.2D", "LDTM.x32", "STG.E.128"} <= set(names)
    assert not any(name.startswith("UGETNEXTWORKID") for name in names)


@pytest.mark.parametrize("experts", [1, 512])
def test_experts_have_room_beside_the_stages(experts: int) -> None:
    for params in grouped_tiles.space(shape := GroupedCase(rows=4096, experts=experts, n=4096, k=4096)):
        tile = grouped_tiles.tile_of(shape, params)
        assert tile.stages >= 3
        assert tile.shared_bytes <= MAX_SHARED_BYTES
        if tile.stages < 8:
            with pytest.raises(ValueError, match="leave no room"):
                grouped_tiles.tile_of(shape, params | {"stages": tile.stages + 1})


@pytest.mark.parametrize("kind", KINDS)
def test_shared_memory_is_within_budget(kind: str) -> None:
    for params in space(shape := case(KINDS[kind][0])):
        tile = tile_of(shape, params)
        assert tile.shared_bytes <= MAX_SHARED_BYTES
        with pytest.raises(ValueError, match="leave no room"):
            tile_of(shape, params | {"stages": tile.stages + 1})
