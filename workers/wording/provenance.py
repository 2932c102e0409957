"""Where a figure comes from, in words: device, clocks, libraries, commit and time."""

from workers.documents.measurement import Environment, Telemetry
from workers.documents.stages import Results, Stage
from workers.wording.text import capitalised, moment, number, percent, quantity

NOTICEABLE = 0.05
"""Other programs' share of the CPU is mentioned when it is larger than this."""
IN_TURN = "whole layers on one GPU after the other, as device_map places them"
SHARDED = "the attention and MLP of each layer sharded over all of them"


def environment(results: Results, stage: Stage) -> Environment | None:
    """The environment in which `stage` measured. Price and report use the figures of verify, so its environment too."""
    result = getattr(results, "verify" if stage in ("price", "report") else stage)
    return getattr(result, "environment", None)


def clocks(env: Environment) -> str:
    """Clock and power while measuring: `1,980 MHz (1,965 to 1,980), 350 W`; empty where the machine does not tell."""
    seen = env.telemetry
    words = []
    if seen.sm_mhz_median is not None:
        words.append(f"{seen.sm_mhz_median:,.0f} MHz")
        if seen.sm_mhz_min is not None and seen.sm_mhz_max is not None:
            words[-1] += f" ({seen.sm_mhz_min:,.0f} to {seen.sm_mhz_max:,.0f})"
    if seen.power_w_median is not None:
        words.append(f"{number(seen.power_w_median)} W")
    if seen.throttle_reasons:
        words.append("throttled: " + ", ".join(seen.throttle_reasons))
    if seen.others_cpu_share is not None and seen.others_cpu_share >= NOTICEABLE:
        words.append(f"other programs used {seen.others_cpu_share:.0%} of the CPU".replace("%", " %"))
    if seen.others_gpu_seconds is not None:
        words.append(_others_on_gpu(seen))
    return ", ".join(words)


def busy(results: Results) -> str:
    """A sentence where other programs kept the CPU busy that verify measured; "" otherwise."""
    env = environment(results, "verify")
    share = env.busy_share if env else None
    if share is None:
        return ""
    return (
        f"Other programs used {percent(share, 0)} of the CPU while verify measured: times may be longer, and vary "
        "more, than on an idle machine."
    )


def _others_on_gpu(seen: Telemetry) -> str:
    if not seen.void:
        return "no other program on the GPU"
    return f"void: another program used the GPU for {seen.others_gpu_seconds:.1f} s"


def gpus_words(results: Results) -> str:
    """How many GPUs before and the plan took, where it took several, and why several were asked; "" elsewhere."""
    verify = results.verify
    if verify is None or verify.gpus == 1:
        return ""
    today = verify.gpus_before
    on = "one GPU" if today == 1 else f"{today} GPUs, since fewer do not hold the model beside a plan"
    words = f"{capitalised(verify.compared_with)} ran on {on}, after on {verify.gpus} of the same kind."
    if today > 1:
        return " ".join(filter(None, (words, placement_words(results))))
    return f"{words} {results.admit.why_several if results.admit else ''}".rstrip()


def placement_words(results: Results) -> str:
    """By which way transformers runs the model over several GPUs, and what the other way took; "" on one GPU."""
    baseline, verify = results.baseline, results.verify
    if baseline is None or verify is None or not baseline.placements:
        return ""
    unit = verify.outcomes[0].objective.unit if verify.outcomes else ""
    values = {name: quantity(value, unit) for name, value in baseline.placements.items()}
    sharded, in_turn = values["tensor_parallel"], values.get("pipeline_parallel")
    if in_turn is None:
        return f"It runs with {SHARDED}; {IN_TURN}, could not be measured."
    if baseline.no_room:
        return (
            f"It ran with {SHARDED}: {sharded}. With {IN_TURN}, it takes {in_turn}, but then no GPU has memory for a "
            "plan beside it, so the gain over the faster way is smaller than the one shown."
        )
    ways = [(SHARDED, sharded), (IN_TURN, in_turn)]
    (way, value), (other, slower) = ways if baseline.placement == "tensor_parallel" else ways[::-1]
    return f"The faster of two ways counts, by two requests of each: {way}, {value}; {other}, {slower}."


def confinement(env: Environment) -> str:
    """What held the process that measured, and what did not; empty where it is not known."""
    confined = env.confinement
    return " ".join([", ".join(confined.held) + ".", *confined.missing]) if confined else ""


def sentence(results: Results, stage: Stage) -> str:
    """One line with device, clocks, versions, commit and time of what `stage` measured; empty before it has run."""
    env = environment(results, stage)
    if env is None:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in env.versions.items())
    commit = f"commit {env.commit}" if env.commit else ""
    return "; ".join(part for part in (env.device, clocks(env), versions, commit, moment(env.at)) if part)


def facts(env: Environment, gpus: int = 1) -> list[tuple[str, str]]:
    """(name, value) of everything recorded about where something was measured; `gpus` are those of the plan."""
    by_driver = "" if env.gpu_class == "cpu" else " by its driver"
    rows = [
        ("Device", env.device),
        ("GPU class", env.gpu_class),
        ("GPUs", f"{gpus} for the plan; UUID, memory and clocks are of the first, power is of all" if gpus > 1 else ""),
        ("GPU UUID", env.gpu_uuid),
        ("Lease", env.lease_id),
        ("Driver", env.driver),
        ("Memory", f"{number(env.memory_gib)} GiB{by_driver}" if env.memory_gib is not None else ""),
        ("Clocks and power", clocks(env)),
        ("Libraries", ", ".join(f"{name} {version}" for name, version in env.versions.items())),
        ("Commit", env.commit),
        ("Confinement", confinement(env)),
        ("Measured at", moment(env.at)),
    ]
    return [(name, value) for name, value in rows if value]
