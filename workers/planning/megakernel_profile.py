"""What a plan's launch of the megakernel does: its row of the profile divided by kind of instruction.

The times of the kinds are shares that an instrumented build gives; they are scaled to the time of the usual one. No
figure of the instrumented build is used but these shares.
"""

from typing import Any

import torch

from kernels.measure.roofline import doubt
from kernels.megakernel.host import record, trace
from kernels.megakernel.host.token_breakdown import ATTENTION_NAME, InstructionTime, TokenBreakdown, token_breakdown
from workers.documents.measurement import Ceilings
from workers.documents.profile import OpRow, PlanProfile
from workers.wording.errors import error_sentence
from workers.wording.plan_profile import INSIDE, MEGAKERNEL
from workers.wording.text import percent, plain

BUILD_SECONDS, RECORD_SECONDS = 20.0, 3.0
"""What compiling the instrumented kernel, and recording with it, may take."""
NAMES = {
    "qkv": "q, k and v projections",
    "attention": "attention",
    "out": "output projection",
    "gate_up": "gate and up projections",
    "down": "down projection",
    "add": "residual",
    "router": "router of the experts",
    "head": "LM head",
    "end": "next token",
}


def with_breakdown(
    profile: PlanProfile, runner: Any, prompt: torch.Tensor, steps: int, ceilings: Ceilings, seconds: float
) -> PlanProfile:
    """The profile with its row of the megakernel divided, and a sentence about that; where it cannot be, a sentence
    that says why.

    `runner` is the plan's, prepared; `steps` tokens of each sequence were made by the launch. `seconds` may be spent.
    """
    row = next((row for row in profile.rows if row.op == MEGAKERNEL), None)
    if row is None or steps < 1:
        return profile
    shares = _record_breakdown(runner, prompt, steps, seconds)
    if isinstance(shares, str):
        why = f"What goes on inside the megakernel was not recorded: {shares}."
        return profile.model_copy(update={"sentence": f"{profile.sentence} {why}"})
    return with_shares(profile, shares, steps, ceilings)


def with_shares(profile: PlanProfile, shares: TokenBreakdown, steps: int, ceilings: Ceilings) -> PlanProfile:
    """The profile with its row of the megakernel divided by these shares, and a sentence about them."""
    row = next(row for row in profile.rows if row.op == MEGAKERNEL)
    tbps = ceilings.of_single_calls.read_tbps
    rows = [other for other in profile.rows if other is not row] + rows_of(row, shares, steps, tbps)
    words = sentence(row, shares, steps, tbps)
    return profile.model_copy(
        update={"rows": sorted(rows, key=lambda row: -row.ms), "sentence": f"{profile.sentence} {words}"}
    )


def _record_breakdown(runner: Any, prompt: torch.Tensor, steps: int, seconds: float) -> TokenBreakdown | str:
    """The shares of the middle token, or the end of a sentence on why there are none."""
    try:
        needed = RECORD_SECONDS + BUILD_SECONDS * len(record.unmade(runner))
        if seconds < needed:
            return f"building its instrumented kernel and one request take {needed:.0f} s, and {seconds:.0f} s are left"
        recorded = record.timeline(runner, prompt, steps + 1)
        keys = prompt.shape[1] + (steps + 1) / 2
        return token_breakdown(trace.timeline_of(recorded), [program for program, _ in recorded], keys)
    except (RuntimeError, ValueError, OSError) as error:
        return f"its instrumented kernel failed ({error_sentence(error).rstrip('.')})"


def rows_of(row: OpRow, shares: TokenBreakdown, steps: int, read_tbps: float) -> list[OpRow]:
    """The megakernel's row as one for the work of each kind of instruction, one for the time until its input is read,
    and one for the time between instructions.

    A floor is the time that the bytes of a kind take at the measured bandwidth. No row has a headroom: weights are read
    ahead, so only the sum of the floors bounds the sum of the times.
    """
    rows = []
    for kind in shares.kinds:
        calls, least = kind.places * steps, kind.read_bytes * steps
        if kind.works:
            rows.append(_part(row, _name(kind), kind.works, calls, least, read_tbps))
        if kind.waits:
            rows.append(_part(row, f"{_name(kind)}: waits for its input", kind.waits, calls))
    return [*rows, _part(row, f"{INSIDE}between instructions", shares.between, steps)]


def _name(kind: InstructionTime) -> str:
    return f"{INSIDE}{NAMES[kind.op]}"


def _part(row: OpRow, name: str, share: float, calls: int, least: float = 0.0, read_tbps: float = 0.0) -> OpRow:
    return OpRow(
        op=name,
        phase=row.phase,
        kernel=row.kernel,
        ms=row.ms * share,
        share=row.share * share,
        calls=calls,
        least_bytes=least or None,
        floor_ms=least / read_tbps / 1e9 if least and read_tbps else None,
        bound="memory",
    )


def sentence(row: OpRow, shares: TokenBreakdown, steps: int, read_tbps: float) -> str:
    """What a token of the megakernel spends its time on, and what its bytes take at the measured bandwidth."""
    step_ms = row.ms / steps
    several = f", the mean of {shares.gpus} GPUs" if shares.gpus > 1 else ""
    longest = max(shares.kinds, key=lambda kind: kind.waits)
    attention = next((kind.works for kind in shares.kinds if kind.op == ATTENTION_NAME and not kind.waits), 0.0)
    mixed = f", {percent(attention, 0)} is attention with its own waits" if attention else ""
    words = (
        f"Inside the megakernel{several}, by the shares of one token of an instrumented build "
        f"({plain(shares.token_us / 1000)} ms, where the plan's takes {plain(step_ms)} ms): SMs wait for their input "
        f"{percent(shares.waits, 0)} of the time, longest for that of the {NAMES[longest.op]} "
        f"({percent(longest.waits, 0)}){mixed}, and they run no instruction {percent(shares.between, 0)} of it"
    )
    if not read_tbps:
        return f"{words}."
    floor = shares.read_bytes / read_tbps / 1e9
    on_each = " on each GPU" if shares.gpus > 1 else ""
    words += (
        f". A token reads {plain(shares.read_bytes / 1e9)} GB{on_each}, which takes {plain(floor)} ms at the measured"
    )
    if doubt(floor, step_ms):
        return f"{words} bandwidth, longer than the token takes: one of the two is wrong."
    return (
        f"{words} bandwidth, {percent(floor / step_ms, 0)} of its time. Weights are read ahead, also while SMs wait, "
        "so a part may take less than the floor of its bytes; all parts together may not."
    )
