"""Where a figure comes from, in words: device, clocks, libraries, commit and time."""

from workers.documents.measurement import Environment, Telemetry
from workers.documents.stages import Results, Stage
from workers.wording.text import capitalised, moment, number, percent

NOTICEABLE = 0.05
"""Other programs' share of the CPU is mentioned when it is larger than this."""
BUSY = 0.2
"""Where their share is at least this, a page says that times of a CPU may be longer for it."""


def environment(results: Results, stage: Stage) -> Environment | None:
    """The environment in which `stage` measured. Price and report use the figures of verify, so its environment too."""
    result = getattr(results, "verify" if stage in ("price", "report") else stage)
    return getattr(result, "environment", None)


def clocks(found: Environment) -> str:
    """Clock and power while measuring: `1,980 MHz (1,965 to 1,980), 350 W`; empty where the machine does not tell."""
    seen = found.telemetry
    said = []
    if seen.sm_mhz_median is not None:
        said.append(f"{seen.sm_mhz_median:,.0f} MHz")
        if seen.sm_mhz_min is not None and seen.sm_mhz_max is not None:
            said[-1] += f" ({seen.sm_mhz_min:,.0f} to {seen.sm_mhz_max:,.0f})"
    if seen.power_w_median is not None:
        said.append(f"{number(seen.power_w_median)} W")
    if seen.throttle_reasons:
        said.append("throttled: " + ", ".join(seen.throttle_reasons))
    if seen.others_cpu_share is not None and seen.others_cpu_share >= NOTICEABLE:
        said.append(f"other programs used {seen.others_cpu_share:.0%} of the CPU".replace("%", " %"))
    if seen.others_gpu_seconds is not None:
        said.append(_others_on_gpu(seen))
    return ", ".join(said)


def busy(results: Results) -> str:
    """A sentence where other programs kept the CPU busy that verify measured; "" otherwise."""
    found = environment(results, "verify")
    share = busy_share(found) if found else None
    if share is None:
        return ""
    return (
        f"Other programs used {percent(share, 0)} of the CPU while verify measured: times may be longer, and vary "
        "more, than on an idle machine."
    )


def busy_share(found: Environment) -> float | None:
    """The share of the measured CPU that other programs used, where it is BUSY or more."""
    share = found.telemetry.others_cpu_share if found.gpu_class == "cpu" else None
    return None if share is None or share < BUSY else share


def _others_on_gpu(seen: Telemetry) -> str:
    if not seen.void:
        return "no other program on the GPU"
    return f"void: another program used the GPU for {seen.others_gpu_seconds:.1f} s"


def gpus_words(results: Results) -> str:
    """That the plan took several GPUs and what it is compared with one, and why several were asked; "" elsewhere."""
    verify = results.verify
    if verify is None or verify.gpus == 1:
        return ""
    said = f"{capitalised(verify.compared_with)} ran on one GPU, after on {verify.gpus} of the same kind."
    return f"{said} {results.admit.why_several if results.admit else ''}".rstrip()


def confinement(found: Environment) -> str:
    """What held the process that measured, and what did not; empty where it is not known."""
    known = found.confinement
    return " ".join([", ".join(known.held) + ".", *known.missing]) if known else ""


def sentence(results: Results, stage: Stage) -> str:
    """One line with device, clocks, versions, commit and time of what `stage` measured; empty before it has run."""
    found = environment(results, stage)
    if found is None:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    commit = f"commit {found.commit}" if found.commit else ""
    return "; ".join(part for part in (found.device, clocks(found), versions, commit, moment(found.at)) if part)


def facts(found: Environment, gpus: int = 1) -> list[tuple[str, str]]:
    """(name, value) of everything recorded about where something was measured; `gpus` are those of the plan."""
    told = "" if found.gpu_class == "cpu" else " by its driver"
    rows = [
        ("Device", found.device),
        ("GPU class", found.gpu_class),
        ("GPUs", f"{gpus} for the plan; UUID, memory and clocks are of the first, power is of all" if gpus > 1 else ""),
        ("GPU UUID", found.gpu_uuid),
        ("Lease", found.lease_id),
        ("Driver", found.driver),
        ("Memory", f"{number(found.memory_gib)} GiB{told}" if found.memory_gib is not None else ""),
        ("Clocks and power", clocks(found)),
        ("Libraries", ", ".join(f"{name} {version}" for name, version in found.versions.items())),
        ("Commit", found.commit),
        ("Confinement", confinement(found)),
        ("Measured at", moment(found.at)),
    ]
    return [(name, value) for name, value in rows if value]
