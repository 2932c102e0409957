"""A bring-up of a CPU as the command wrote it, and a made-up one of a GPU that does not exist: no measurement."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kernels.bring_up.document import BringUp, MachineLimits, Race
from kernels.hardware import GPUS
from kernels.measure.limits import ONE_GPU
from workbench.bring_ups import services
from workbench.bring_ups.models import BringUpRow

FILE = Path(__file__).parent / "data" / "bring-up-cpu.json"


@cache
def measured() -> BringUp:
    """The measured one."""
    return BringUp.model_validate_json(FILE.read_text("utf-8"))


def made_up() -> BringUp:
    """The same with another device: a variant that fails, and one of ours ahead of its peer and behind it in turns."""
    result, name = measured(), "NVIDIA X900"
    races = [_raced(at, race) for at, race in enumerate(result.races)]
    gaps = [gap.model_copy(update={"kind": "behind", "variant": "mine"}) for gap in result.models[0].gaps]
    failing = result.proofs[0].model_copy(update={"failed": 1, "failures": {result.races[0].case: "Off by 0.3."}})
    return result.model_copy(
        update={
            "environment": result.environment.model_copy(update={"device": name, "gpu_class": "x900"}),
            "entry": replace(GPUS["h200"], gpu_class="x900", name=name, source="measured"),
            "ceilings": result.ceilings.model_copy(update={"burst": result.ceilings}),
            "limits": MachineLimits(
                block_barrier_us=0.02, grid_barrier_us=1.4, shared_tbps=28.0,
                absent=dict.fromkeys(("exchange_tbps", "exchange_us"), ONE_GPU),
            ),
            "stranger": True, "proofs": [failing, *result.proofs[1:]], "races": races,
            "models": [result.models[0].model_copy(update={"gaps": gaps})],
            "stopped": {"race of op=rope": "Its process ended with code 7."},
            "left_out": ["race of op=lm_head"],
        }
    )  # fmt: skip


def _raced(at: int, race: Race) -> Race:
    ours = (race.peer_ms or 1.0) * (0.5 if at % 2 else 2.0)
    return race.model_copy(update={"own": "mine", "own_ms": ours})


def row(organisation: Any, user: Any, found: BringUp | None = None) -> BringUpRow:
    """The document kept for an organisation; the measured one where none is given."""
    return services.add(organisation, user, found or measured())
