"""What the pages show of bring-ups: tables and the figure of the gaps, in the form of the other charts."""

import re
from collections.abc import Sequence

from kernels.bring_up.document import BringUp, MachineRates, ModelCost, Race
from kernels.bring_up.report import KINDS, limits
from kernels.bring_up.shares import OpShare, ceiling_share, op_shares, peer_share
from workers.charts.base import AFTER, BEFORE, Cell, Figure, Table, layout
from workers.wording.text import case_label, moment, quantity

KEY = re.compile(r"\bop=\w+(?: \w+=[^\s:]+)*")
"""A case's key within a sentence."""
SHOWN = 12
"""How many gaps the figure draws; the table has all."""


def label(key: str) -> str:
    """A case in a few words, from its key."""
    values = dict(part.partition("=")[::2] for part in key.split())
    flags = {"True": True, "False": False}
    read = {name: int(value) if value.isdecimal() else flags.get(value, value) for name, value in values.items()}
    return case_label(str(read.pop("op", key)), read) if "op" in read else key


def next_steps(bring_up: BringUp) -> list[str]:
    """The next things to do, with each case in a few words."""
    return [KEY.sub(lambda key: label(key[0]), step) for step in bring_up.next_steps]


def facts(bring_up: BringUp) -> list[tuple[str, str]]:
    """(name, value) of the device and of how it was measured."""
    machine, entry = bring_up.environment, bring_up.entry
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    rows = [
        ("Device", machine.device),
        ("GPU class", entry.gpu_class),
        ("Compute capability", f"{entry.sm / 10:.1f}, {entry.sms:,} SMs" if entry.sm else ""),
        ("Memory", quantity(entry.memory_gib, "GiB") if entry.memory_gib else ""),
        ("Rates of the entry", f"from the {entry.source}" if entry.source != "measured" else "measured"),
        ("Driver", machine.driver),
        ("Libraries", versions),
        ("Commit", machine.commit),
        ("Measured at", f"{moment(machine.at, 'minute')}, in {bring_up.minutes:.1f} minutes"),
        (
            "Form",
            ", ".join(["quick" if bring_up.quick else "whole", *(["as a stranger"] if bring_up.stranger else [])]),
        ),
    ]
    return [(name, value) for name, value in rows if value]


def ceilings(bring_up: BringUp) -> Table:
    """The measured rates, a row for each regime of the clocks."""
    regimes: dict[str, MachineRates] = {"settled": bring_up.ceilings}
    if bring_up.ceilings.burst:
        regimes["burst"] = bring_up.ceilings.burst
    names = list(bring_up.ceilings.matrix_tflops)
    headers = ["clocks", "read, TB/s", "copy, TB/s", *(f"{name}, TFLOP/s" for name in names)]
    return headers, [
        [regime, rates.read_tbps, rates.copy_tbps, *(rates.matrix_tflops.get(name) for name in names)]
        for regime, rates in regimes.items()
    ]


def known_limits(bring_up: BringUp) -> Table:
    """The empty launch, and what else was measured of barriers, shared memory and exchange."""
    rows = [("empty launch, µs", bring_up.ceilings.launch_us), *limits(bring_up)]
    return ["limit", "measured"], [[name, value] for name, value in rows if value is not None]


def proofs(bring_up: BringUp) -> Table:
    """Every variant that was proven at all, those that failed first."""
    tried = [proof for proof in bring_up.proofs if proof.passed or proof.failed]
    rows = sorted(tried, key=lambda proof: (-proof.failed, proof.op, proof.variant))
    return ["variant", "op", "passed", "failed"], [
        [proof.variant, proof.op, proof.passed, proof.failed] for proof in rows
    ]


def failures(bring_up: BringUp) -> Table:
    """Every proof that failed, and every step that gave nothing, with its sentence."""
    rows: list[list[Cell]] = [
        [proof.variant, label(case), sentence] for proof in bring_up.proofs for case, sentence in proof.failures.items()
    ]
    rows += [[step, None, sentence] for step, sentence in bring_up.stopped.items()]
    return ["variant or step", "case", "why"], rows


def refusals(bring_up: BringUp) -> Table:
    """The variants that served no case, and why."""
    rows = [proof for proof in bring_up.proofs if not proof.passed and not proof.failed]
    return ["variant", "op", "why"], [[proof.variant, proof.op, proof.refusal or "not tried"] for proof in rows]


def shares(bring_up: BringUp) -> Table:
    """Each op's share of the ceiling and of the best peer."""
    headers = ["op", "cases", "of the ceiling, median %", "lowest %", "of the best peer, median %"]
    return headers, [[op_share.op, op_share.races, *_share_cells(op_share)] for op_share in op_shares(bring_up.races)]


def _share_cells(op_share: OpShare | None) -> list[Cell]:
    if op_share is None:
        return [None, None, None]
    return [_percent_value(share) for share in (op_share.of_ceiling, op_share.lowest, op_share.of_peer)]


def _percent_value(share: float | None) -> float | None:
    return None if share is None else 100 * share


def races(bring_up: BringUp) -> Table:
    """Every race, with its shares."""
    headers = ["case", "best of ours", "µs", "best peer", "its µs", "floor, µs", "of ceiling, %", "of peer, %"]
    rows: list[list[Cell]] = []
    for race in bring_up.races:
        ours, peer, floor = map(_us, (race.own_ms, race.peer_ms, race.floor_ms))
        of_ceiling, of_peer = (_percent_value(share(race)) for share in (ceiling_share, peer_share))
        rows.append([label(race.case), race.own, ours, race.peer, peer, floor, of_ceiling, of_peer])
    return headers, rows


def _us(ms: float | None) -> float | None:
    return None if ms is None else 1000 * ms


def gaps(model: ModelCost) -> Table:
    """What each op could save a request of the model."""
    headers = ["case", "calls", "runs on", "µs a call", "bound, µs", "ms of a request", "why"]
    return headers, [
        [label(gap.case), round(gap.calls), gap.variant, _us(gap.call_ms), _us(gap.bound_ms), gap.ms, KINDS[gap.kind]]
        for gap in model.gaps
    ]


def gaps_figure(model: ModelCost) -> Figure | None:
    """The largest gaps as bars: of each op's time in a request the part within its bound, and the rest."""
    shown = model.gaps[:SHOWN][::-1]
    if not shown:
        return None
    parts = (
        ("within its bound", BEFORE, lambda gap: gap.calls * gap.bound_ms),
        ("to be gained", AFTER, lambda gap: gap.ms),
    )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [f"{gap.variant}: {label(gap.case)}" for gap in shown],
            "x": [ms(gap) for gap in shown],
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.4g} ms<extra></extra>",
        }
        for name, colour, ms in parts
    ]
    form = layout("ms per request", "", height=130 + 28 * len(shown), barmode="stack", xaxis={"rangemode": "tozero"})
    return {"data": traces, "layout": form}


def both_ceilings(sides: Sequence[BringUp]) -> Table:
    """The rates of both GPUs under burst clocks, where they were measured in two regimes, and the launch."""
    rates = [side.ceilings.burst or side.ceilings for side in sides]
    names = dict.fromkeys(name for side_rates in rates for name in side_rates.matrix_tflops)
    rows: list[list[Cell]] = [
        ["read, TB/s", *(side_rates.read_tbps for side_rates in rates)],
        ["copy, TB/s", *(side_rates.copy_tbps for side_rates in rates)],
        *([f"{name}, TFLOP/s", *(side_rates.matrix_tflops.get(name) for side_rates in rates)] for name in names),
        ["empty launch, µs", *(side.ceilings.launch_us for side in sides)],
    ]
    for limit, other in zip(*map(limits, sides), strict=True):
        if limit[1] is not None or other[1] is not None:
            rows.append([limit[0], limit[1], other[1]])
    return _compared("rate", rows)


def both_models(sides: Sequence[BringUp]) -> Table:
    """What a request of each model takes by its ops' best times."""
    ms_by_model = [{model.model: model.ms for model in side.models} for side in sides]
    names = dict.fromkeys(name for times in ms_by_model for name in times)
    return _compared("model, ms of a request", [[name, *(times.get(name) for times in ms_by_model)] for name in names])


def compare_shares(sides: Sequence[BringUp]) -> Table:
    """Each op's shares on both GPUs."""
    shares_by_op = [{op_share.op: op_share for op_share in op_shares(side.races)} for side in sides]
    names = dict.fromkeys(name for by_op in shares_by_op for name in by_op)
    headers = ["op", *(f"{side}: of {what}, %" for side in "AB" for what in ("the ceiling", "the best peer"))]
    rows: list[list[Cell]] = []
    for name in names:
        cells = [_share_cells(by_op.get(name)) for by_op in shares_by_op]
        rows.append([name, *(cell for three in cells for cell in (three[0], three[2]))])
    return headers, rows


def both_races(sides: Sequence[BringUp]) -> Table:
    """The best time of each case that was raced on both GPUs."""
    races_by_case: list[dict[str, Race]] = [{race.case: race for race in side.races} for side in sides]
    shared = [case for case in races_by_case[0] if case in races_by_case[1]]
    return _compared(
        "case, µs", [[label(case), *(_us(by_case[case].best_ms) for by_case in races_by_case)] for case in shared]
    )


def both_proofs(sides: Sequence[BringUp]) -> Table:
    """The variants that do not end alike on both GPUs."""
    proofs_by_op = [
        {proof.variant: _ending(proof.passed, proof.failed, proof.refused) for proof in side.proofs} for side in sides
    ]
    names = dict.fromkeys(name for endings in proofs_by_op for name in endings)
    rows = [[name, *(endings.get(name, "not known") for endings in proofs_by_op)] for name in names]
    return ["variant", "A", "B"], [list(row) for row in rows if row[1] != row[2]]


def _ending(passed: int, failed: int, refused: int) -> str:
    if failed:
        return "fails"
    if passed:
        return "passes"
    return "is refused" if refused else "not tried"


def _compared(first: str, rows: list[list[Cell]]) -> Table:
    """Rows [name, A, B] with the ratio B to A beside them, where both are known."""
    compared: list[list[Cell]] = []
    for name, value, other in rows:
        comparable = isinstance(value, int | float) and isinstance(other, int | float) and value
        compared.append([name, value, other, other / value if comparable else None])  # type: ignore[operator]
    return [first, "A", "B", "B / A"], compared
