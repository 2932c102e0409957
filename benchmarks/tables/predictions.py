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
    for error in errors():
        if error.source != TURNS and error.metric in LATENCIES:
            groups[error.gpu, error.runner, error.weights, NAMES[error.model], error.batch, error.prompt].append(error)
    lines = []
    for (gpu, runner, *of, batch, prompt), group in sorted(groups.items()):
        sides = ([error for error in group if error.metric == metric] for metric in LATENCIES)
        columns = [gpu.upper(), runner.replace("_", " "), *of, f"{batch}", f"{prompt:,}"]
        lines.append([*columns, f"{len(group) // len(LATENCIES)}", *(_medians(side) for side in sides)])
    return markdown(["GPU", "runner", "weights", "model", "batch", "prompt", "measured", *LATENCIES.values()], lines)


@table("predicted-corrected")
def corrected() -> str:
    """Median errors of one model as predicted, and corrected by what the other model measured of the same runner."""
    judged_errors = [error for error in errors() if error.gpu == "h200" and error.model in MODELS]
    known = [error for error in judged_errors if error.source != TURNS and error.metric in LATENCIES]
    lines = []
    for runner in ("megakernel", "kernels", "compiled"):
        for judged, name in MODELS.items():
            cells = []
            for metric in LATENCIES:
                of = [error for error in known if (error.runner, error.metric) == (runner, metric)]
                factor = median(error.measured / error.predicted for error in of if error.model != judged)
                of_model = [error for error in of if error.model == judged]
                off = (median(abs(by * (1 + error.error) - 1) for error in of_model) for by in (1.0, factor))
                cells.append(", corrected ".join(f"{100 * share:.0f} %" for share in off))
            lines.append([runner, name, *cells])
    return markdown(["runner", "judged on", *LATENCIES.values()], lines)


@table("predicted-steps")
def steps() -> str:
    """TPOT of every model that the megakernel was timed with in one process, at two lengths."""
    by_model: dict[str, dict[int, list[Error]]] = defaultdict(lambda: defaultdict(list))
    for error in errors():
        if error.source == TURNS:
            by_model[error.model][error.prompt + 32].append(error)
    lines = [[model, *(_medians(by[length]) for length in (128, 16_320))] for model, by in sorted(by_model.items())]
    return markdown(["model", "128 tokens", "16,320 tokens"], lines)


@table("predicted-load")
def load() -> str:
    """Tokens per second of Llama-3.2-1B by users at once, over HTTP and in process."""
    groups: dict[tuple[int, str, str], list[Error]] = defaultdict(list)
    for error in errors():
        if error.metric == "throughput":
            over = "HTTP" if error.source in ("serve-4895f2b", "serve-194ddaf", "serve-alone") else "in process"
            groups[error.batch, over, error.runner].append(error)
    lines = []
    for (users, over, runner), group in sorted(groups.items()):
        rate = f"{median(error.measured for error in group):,.0f}"
        lines.append([f"{users}", over, runner, rate, _medians(group)])
    return markdown(["users", "over", "runner", "tokens/s", "error"], lines)


def _medians(group: Sequence[Error]) -> str:
    """`−55 %, now −5 %`: the medians of the roofline's errors and of the model's; a dash where there is none."""
    if not group:
        return "–"
    before, now = median(error.roofline_error for error in group), median(error.error for error in group)
    return f"{_signed_percent(before)}, now {_signed_percent(now)}"


def _signed_percent(share: float) -> str:
    return f"{round(100 * share):+d} %".replace("-", "−").replace("+0 %", "0 %")
