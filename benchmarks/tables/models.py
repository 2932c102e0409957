"""Tables of whole models."""

from statistics import mean

from benchmarks.documents import Row, best, document, one, rows
from benchmarks.tables.writing import fidelity, markdown, table, whole_ms

MODELS = {"llama-3.2-1b": "Llama-3.2-1B", "qwen2.5-1.5b": "Qwen2.5-1.5B"}


def whole_models(variant: str) -> str:
    """The document with the rows of a runner: of lower precision always the one whose weights GPTQ rounded.

    decode.json has such rows too, rounded to nearest, and those of `kernels_fp8` read prompts by bf16 weights.
    """
    return "decode-lossy" if variant.endswith(("int8", "fp8", "nvfp4")) else "decode"


@table("ttf64")
def ttf64() -> str:
    """First 64 tokens by runner, two models, with the fidelity of each; lower precision as GPTQ rounds it."""
    runners = {
        "compiled": "torch.compile, CUDA graphs (bf16)",
        "compiled_tuned": "torch.compile, generated matrix-vector products (bf16)",
        "compiled_max_autotune": "torch.compile, max-autotune (bf16)",
        "kernels": "kernels from the library (bf16)",
        "megakernel": "megakernel, one launch for all tokens after the first (bf16)",
        "kernels_fp8": "kernels from the library, fp8 weights",
        "megakernel_fp8": "megakernel, fp8 weights",
        "megakernel_nvfp4": "megakernel, NVFP4 weights",
    }
    lines = []
    for variant, label in runners.items():
        fastest = [best(whole_models(variant), model=model, variant=variant, prompt=128) for model in MODELS]
        lines.append([label, *(cell for row in fastest for cell in [whole_ms(row), *fidelity(row)])])
    header = [column for name in MODELS.values() for column in (name, "KL, nats", "other tokens")]
    return markdown(["", *header], lines)


FORMATS = {
    "bf16": ("bf16", "what most models come in"),
    "int8": ("int8", "every run, by default"),
    "fp8": ("fp8", "a workload that allows its loss"),
    "nvfp4": ("NVFP4", "a workload that allows its loss, for the fewest bytes"),
    "int4": ("int4", "a workload that allows its loss"),
    "int4_zero": ("int4 with zero points", "files in that format"),
    "int4_minimum": ("int4 with minimums", "files in that format"),
}
"""The names of formats, and what each is for."""
ROUNDED = {"nearest": "to nearest", "gptq": "by GPTQ"}


@table("rounding")
def rounding() -> str:
    """What the rounding of weights alone loses, on the sample model."""
    rows = document("rounding-trained")["rows"]
    lines = [[*_format(row), *_losses(row)] for row in rows if row["model"] == "voice-agent"]
    return markdown(["weights", *LOSSES], lines)


@table("formats")
def formats() -> str:
    """What each format of weights costs, loses on SmolLM2 and is for."""
    lines = []
    for row in document("rounding-trained")["rows"]:
        if row["model"] == "smollm2":
            lines.append([*_format(row), f"{row['bytes_per_weight']:g}", *_losses(row), FORMATS[row["weights"]][1]])
    return markdown(["weights", "bytes a weight", *LOSSES, "for"], lines)


LOSSES = ("KL, nats", "other tokens", "perplexity")


def _format(row: Row) -> list[str]:
    name, how = FORMATS[row["weights"]][0], ROUNDED[row["rounding"]]
    if row["weights"] == "bf16":
        return [f"{name}, torch's arithmetic"]
    return [f"{name}, a scale for {row['group'] or 'a row'}, {how}"]


def _losses(row: Row) -> list[str]:
    return [f"{row['kl']:.2g}", f"{100 * row['top1_changed']:.2f} %", f"{row['perplexity']:.2f}"]


@table("vllm")
def vllm() -> str:
    """First 64 tokens in bf16 beside vLLM's engine, which runs in its own process on the same weights and GPU."""
    source, runners = "decode-vllm", ("vllm", "kernels", "megakernel")
    lines = []
    for batch, prompt in ((1, 128), (1, 1024), (8, 128), (8, 1024)):
        for model, name in MODELS.items():
            by_runner = {
                runner: one(source, model=model, variant=runner, batch=batch, prompt=prompt) for runner in runners
            }
            peer, ours = by_runner["vllm"], by_runner["megakernel"]
            case = f"{name}, {prompt:,} tokens" + (f", {batch} at once" if batch > 1 else "")
            times = [whole_ms(row) for row in by_runner.values()]
            low, high = peer["ms_low"] / ours["ms_high"], peer["ms_high"] / ours["ms_low"]
            lines.append([case, *times, f"{peer['ms'] / ours['ms']:.2f}x ({low:.2f} to {high:.2f})"])
    version = one(source, model="llama-3.2-1b", variant="vllm", batch=1, prompt=128)["params"]["version"]
    header = ["", f"vLLM {version}", "kernels", "megakernel", "vLLM's time over the megakernel's"]
    return markdown(header, lines)


@table("kernels-runner")
def kernels_runner() -> str:
    """First 64 tokens of the kernels runner in bf16 beside torch's three compiled runners, in ms."""
    variants = ("kernels", "compiled", "compiled_tuned", "compiled_max_autotune")
    lines = []
    for model, name in MODELS.items():
        for prompt in (128, 1024):
            timed = [one("decode", model=model, variant=variant, prompt=prompt) for variant in variants]
            lines.append([f"{name}, {prompt:,} tokens", *(whole_ms(row, "") for row in timed)])
    return markdown(["prompt", "kernels", "torch.compile", "products tuned", "max-autotune"], lines)


INTEGERS = ("decode-int8", "decode-int8-8b-batches", "decode-int4-8b", "decode-int4-1b")
"""The documents of the megakernel in integers, with bf16 beside it."""


@table("integers")
def integers() -> str:
    lines = []
    for source in INTEGERS:
        for row in rows(source):
            case = row["case"]
            name = f"{case['model']}, {case['weights']}" + (f", batch {case['batch']}" if case["batch"] > 1 else "")
            share = f"{100 * row['read_share']:.0f} %"
            lines.append([name, whole_ms(row), f"{row['ms_per_token']:.3f} ms", share, *fidelity(row)])
    header = ["prompt of 128", "first 64 tokens", "a token", "of the read bandwidth", "KL, nats", "other tokens"]
    return markdown(header, lines)


@table("mixtures")
def mixtures() -> str:
    measured = [
        row for name in ("decode-moe", "h200x2/decode-moe", "decode-gpt-oss", "decode-gpt-oss-8") for row in rows(name)
    ]
    lines = [
        [
            f"{case['model']}, {case['weights']}",
            str(case.get("gpus") or 1),
            str(case["batch"]),
            f"`{row['variant']}`",
            f"{row['ms_per_token']:.3f} ms",
            f"{1000 * case['batch'] / row['ms_per_token']:,.0f}",
            f"{row['read_share']:.0%}".replace("%", " %"),
        ]
        for row in measured
        for case in (row["case"],)
    ]
    header = ["prompt of 128", "GPUs", "batch", "runner", "a token", "tokens/s", "of the read bandwidth"]
    return markdown(header, lines)


@table("megakernel")
def megakernel() -> str:
    """The megakernel by model, prompt, batch and precision; the best of torch beside bf16 only."""
    lines = []
    for model, name in MODELS.items():
        for source, prompt, batch, suffix in (
            ("decode", 128, 1, ""),
            ("decode", 1024, 1, ""),
            ("decode-aef7729", 128, 8, ""),
            ("decode-lossy", 128, 1, "_fp8"),
            ("decode-lossy", 128, 1, "_nvfp4"),
        ):
            timed = rows(source, model=model, variant=f"megakernel{suffix}", prompt=prompt, batch=batch)
            for row in timed:
                peers = [] if suffix else [best(source, model=model, prompt=prompt, batch=batch, peer=True)]
                what = f"{name}, {row['case']['weights']}, {prompt:,} tokens" + (f", batch {batch}" * (batch > 1))
                lines.append(
                    [
                        what,
                        whole_ms(row),
                        f"{row['ms_per_token']:.3f} ms",
                        f"{row['read_share']:.0%}".replace("%", " %"),
                        *fidelity(row),
                        *([f"{peer['ms']:.1f} ms" for peer in peers] or [""]),
                    ]
                )
    header = ["", "first 64 tokens", "a token", "of the read bandwidth", "KL, nats", "other tokens", "best of torch"]
    return markdown(header, lines)


@table("megakernel-models")
def megakernel_models() -> str:
    """A decode step of every model in bf16, batch 1, behind 128 and 16,320 tokens."""
    source = "megakernel-turns"
    names = list(dict.fromkeys(row["model"] for row in rows(source)))
    lines = []
    for name in names:
        cells = []
        for position in (128, 16320):
            timed = rows(source, model=name, position=position, commit="ad0e61d")
            cells.append(f"{mean(row['ms'] for row in timed):.3f} ms" if timed else "–")
        lines.append([name, *cells])
    return markdown(["", "128 tokens", "16,320 tokens"], lines)
