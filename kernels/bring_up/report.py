"""The bring-up's document from the files of its steps, and the same as Markdown. Imports without torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernels.bring_up.document import BringUp, Gap, MachineCeilings, ModelCost, VariantProofs
from kernels.bring_up.shares import op_shares

NEXT_STEPS = 10
KINDS = {"missing": "no variant of ours serves it", "behind": "a peer is faster", "above": "above its floor"}


def proofs_of(rows: Sequence[Mapping[str, Any]], ops: Mapping[str, str]) -> list[VariantProofs]:
    """The gate's rows counted by variant. `ops` maps variants to their op."""
    proofs = []
    for variant, op in ops.items():
        mine = [row for row in rows if row["variant"] == variant]
        failures = {row["case"]: row["sentence"] for row in mine if row["gate"] not in ("pass", "refused")}
        refusals = [row["sentence"] for row in mine if row["gate"] == "refused"]
        passed = sum(row["gate"] == "pass" for row in mine)
        proofs.append(
            VariantProofs(
                variant=variant,
                op=op,
                passed=passed,
                failed=len(failures),
                refused=len(refusals),
                failures=failures,
                refusal=refusals[0] if refusals and not passed else "",
            )
        )
    return proofs


def next_steps(proofs: Sequence[VariantProofs], stopped: Mapping[str, str], gaps: Sequence[Gap]) -> list[str]:
    """At most ten things to do: failures first, then the gaps by what they cost a request."""
    steps = [
        f"Mend {proof.variant}: {proof.failed} of {proof.passed + proof.failed} proofs failed, "
        f"such as {case}: {sentence}"
        for proof in proofs
        for case, sentence in list(proof.failures.items())[:1]
    ]
    steps += [f"Find out why this gave nothing: {label}. {sentence}" for label, sentence in stopped.items()]
    words = {
        "missing": "Write a variant for {case}: {variant}, a peer, takes {call:.4g} µs, the floor is {bound:.4g} µs",
        "behind": "Make {variant} as fast as its peer at {case}: {call:.4g} µs, the peer {bound:.4g} µs",
        "above": "Bring {variant} nearer to its floor at {case}: {call:.4g} µs, the floor {bound:.4g} µs",
    }
    for gap in sorted(gaps, key=lambda gap: -gap.ms):
        advice = words[gap.kind].format(
            case=gap.case, variant=gap.variant, call=gap.call_ms * 1000, bound=gap.bound_ms * 1000
        )
        steps.append(f"{advice}; {gap.ms:.3g} ms of a request of {gap.model}.")
    return steps[:NEXT_STEPS]


def markdown(document: BringUp) -> str:
    """The report for people."""
    entry, environment = document.entry, document.environment
    lines = [
        f"# Bring-up of {environment.device}",
        "",
        f"Measured at {environment.at.isoformat()}, commit {environment.commit or 'unknown'}, "
        f"in {document.minutes:.1f} minutes"
        + (", as a GPU that nobody prepared for" * document.stranger)
        + (", the quick form" * document.quick)
        + ".",
        "",
        "## The GPU",
        "",
        f"Class `{entry.gpu_class}`, compute capability {entry.sm / 10:.1f}, {entry.sms} SMs, "
        f"{entry.memory_gib:.1f} GiB, rates: {entry.source}.",
        "",
        *_ceilings(document.ceilings),
        "",
        *[f"- {name}: {value:.3g}" for name, value in limits(document) if value is not None],
        *[f"- Not measured: {names}. {reason}" for names, reason in absent(document)],
        "",
        "## The next things to do",
        "",
        *[f"{number}. {step}" for number, step in enumerate(document.next_steps, 1)],
        "",
        "## Variants at the gate",
        "",
        "| variant | op | passed | failed | refused | why none was served |",
        "| --- | --- | --- | --- | --- | --- |",
        *[
            f"| {proof.variant} | {proof.op} | {proof.passed} | {proof.failed} | {proof.refused} | {proof.refusal} |"
            for proof in document.proofs
        ],
    ]
    lines += _share_lines(document)
    for model in document.models:
        lines += _model(model)
    if document.stopped:
        lines += ["", "## Gave nothing", "", *[f"- {label}: {reason}" for label, reason in document.stopped.items()]]
    if document.left_out:
        lines += ["", "## No time was left for", "", *[f"- {sentence}" for sentence in document.left_out]]
    return "\n".join(lines) + "\n"


def _ceilings(ceilings: MachineCeilings) -> list[str]:
    regimes = {"settled": ceilings} | ({"burst": ceilings.burst} if ceilings.burst else {})
    names = list(ceilings.matrix_tflops)
    return [
        "| clocks | read, TB/s | copy, TB/s | " + " | ".join(f"{name}, TFLOP/s" for name in names) + " |",
        "| --- | --- | --- |" + " --- |" * len(names),
        *[
            f"| {regime} | {rates.read_tbps:.3g} | {rates.copy_tbps:.3g} | "
            + " | ".join(f"{rates.matrix_tflops.get(name, 0):.3g}" for name in names)
            + " |"
            for regime, rates in regimes.items()
        ],
        "",
        f"An empty launch takes {ceilings.launch_us:.3g} µs.",
    ]


LIMITS = {
    "block_barrier_us": ("barrier of a block", "µs"),
    "grid_barrier_us": ("barrier of all SMs", "µs"),
    "shared_tbps": ("reads of shared memory", "TB/s"),
    "exchange_tbps": ("copy to another GPU", "TB/s"),
    "exchange_us": ("copy of 4 bytes to another GPU", "µs"),
}
"""Names and units of the limits by field."""


def limits(document: BringUp) -> list[tuple[str, float | None]]:
    """Each limit by its name with its unit; None where it was not measured."""
    return [(f"{name}, {unit}", getattr(document.limits, field, None)) for field, (name, unit) in LIMITS.items()]


def absent(document: BringUp) -> list[tuple[str, str]]:
    """The limits that were not measured, and why; those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for field, reason in (document.limits.absent if document.limits else {}).items():
        reasons.setdefault(reason, []).append(LIMITS.get(field, (field,))[0])
    return [(", ".join(names), reason) for reason, names in reasons.items()]


def _share_lines(document: BringUp) -> list[str]:
    rows = [
        f"| {share.op} | {share.races} | {' | '.join(map(_percent, (share.of_ceiling, share.lowest, share.of_peer)))} |"
        for share in op_shares(document.races)
    ]
    return [
        "",
        "## Shares by op",
        "",
        "Of the ceiling: the floor over the time of the fastest variant. Of the best peer: its time over ours.",
        "",
        "| op | races | of the ceiling, median | lowest | of the best peer, median |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3g} %"


def _model(model: ModelCost) -> list[str]:
    rows = [
        f"| {gap.case} | {gap.calls:g} | {gap.variant} | {gap.call_ms * 1000:.4g} | {gap.bound_ms * 1000:.4g} "
        f"| {gap.ms:.3g} | {KINDS[gap.kind]} |"
        for gap in model.gaps
    ]
    return [
        "",
        f"## {model.model}, {model.prompt} tokens in, {model.tokens} out, batch 1",
        "",
        f"The ops of a request take {model.ms:.4g} ms by their best variants; their floors add up to "
        f"{model.floor_ms:.4g} ms. Launches and the host are not in it.",
        "",
        "| op | calls | variant | µs | bound, µs | ms of a request | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
