"""Tables of how far predictions are off: the roofline alone, and the model that the product uses."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from benchmarks.predicted_errors import TURNS, Error, errors
from benchmarks.tables.models import MODELS
from benchmarks.tables.writing import markdown, table

NAMES = MODELS | {"llama-3.1-8b": "Llama-3.1-8B", "olmoe-1b-7b": "OLMoE-1B-7B"}
LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "ttf_n": "TTF64"}


@table("predicted-latencies")
def latencies() -> str:
    """The median errors of each GPU, runner, precision, model, batch and prompt over all documents."""
    groups: dict[tuple[str, str, str, str, int, int], list[Error]] = defaultdict(list)
    for each in errors():
        if each.source != TURNS and each.metric in LATENCIES:
            groups[each.gpu, each.runner, each.weights, NAMES[each.model], each.batch, each.prompt].append(each)
    lines = []
    for (gpu, runner, *of, batch, prompt), found in sorted(groups.items()):
        sides = ([each for each in found if each.metric == metric] for metric in LATENCIES)
        place = [gpu.upper(), runner.replace("_", " "), *of, f"{batch}", f"{prompt:,}"]
        lines.append([*place, f"{len(found) // len(LATENCIES)}", *(_medians(side) for side in sides)])
    return markdown(["GPU", "runner", "weights", "model", "batch", "prompt", "measured", *LATENCIES.values()], lines)


@table("predicted-corrected")
def corrected() -> str:
    """Median errors of one model as predicted, and corrected by what the other model measured of the same runner."""
    found = [each for each in errors() if each.gpu == "h200" and each.model in MODELS]
    known = [each for each in found if each.source != TURNS and each.metric in LATENCIES]
    lines = []
    for runner in ("megakernel", "kernels", "compiled"):
        for judged, name in MODELS.items():
            cells = []
            for metric in LATENCIES:
                of = [each for each in known if (each.runner, each.metric) == (runner, metric)]
                factor = median(each.measured / each.predicted for each in of if each.model != judged)
                own = [each for each in of if each.model == judged]
                off = (median(abs(by * (1 + each.error) - 1) for each in own) for by in (1.0, factor))
                cells.append(", corrected ".join(f"{100 * each:.0f} %" for each in off))
            lines.append([runner, name, *cells])
    return markdown(["runner", "judged on", *LATENCIES.values()], lines)


@table("predicted-steps")
def steps() -> str:
    """TPOT of every model that the megakernel was timed with in one process, at two lengths."""
    found: dict[str, dict[int, list[Error]]] = defaultdict(lambda: defaultdict(list))
    for each in errors():
        if each.source == TURNS:
            found[each.model][each.prompt + 32].append(each)
    lines = [[model, *(_medians(by[length]) for length in (128, 16_320))] for model, by in sorted(found.items())]
    return markdown(["model", "128 tokens", "16,320 tokens"], lines)


@table("predicted-load")
def load() -> str:
    """Tokens per second of Llama-3.2-1B by users at once, over HTTP and in process."""
    groups: dict[tuple[int, str, str], list[Error]] = defaultdict(list)
    for each in errors():
        if each.metric == "throughput":
            over = "HTTP" if each.source in ("serve-4895f2b", "serve-194ddaf", "serve-alone") else "in process"
            groups[each.batch, over, each.runner].append(each)
    lines = []
    for (users, over, runner), found in sorted(groups.items()):
        rate = f"{median(each.measured for each in found):,.0f}"
        lines.append([f"{users}", over, runner, rate, _medians(found)])
    return markdown(["users", "over", "runner", "tokens/s", "error"], lines)


def _medians(found: Sequence[Error]) -> str:
    """`−55 %, now −5 %`: the medians of the roofline's errors and of the model's; a dash where there is none."""
    if not found:
        return "–"
    before, now = median(each.roofline_error for each in found), median(each.error for each in found)
    return f"{_percent(before)}, now {_percent(now)}"


def _percent(share: float) -> str:
    return f"{round(100 * share):+d} %".replace("-", "−").replace("+0 %", "0 %")
