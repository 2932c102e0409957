"""How the plan of a result is served: the commands, or why it is not."""

import json
import re
from dataclasses import dataclass
from typing import Any

from workers.documents.model import ModelManifest
from workers.documents.stages import Results, VerifyResult
from workers.wording.load_search import limit_words
from workers.wording.text import plain

PORT = 8080
SERVED = ("bf16", "fp16", "fp32", "int8", "mxfp4", "int4", "int4_zero", "int4_minimum")
"""The precisions of weights that the server has products for."""
PACKED = "Many requests share each pass: "
RUNNER_ROUTING = {
    "kernels": "the plan's kernels serve passes of the rows that they were chosen for, the library's own all others.",
    "megakernel": "small batches go to the megakernel, larger ones to the kernels, by times measured at start.",
}
OTHER_RUNNERS = "the library's kernels compute it, since the plan's runner answers one batch after another."

IN_VLLM = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
)
"""Architectures whose steps the plug-in of `clients/vllm` replaces."""
VLLM_CLASSES = ("h100", "h200")
PYTHON = """\
from pathlib import Path
from kernels import runners
from kernels.runners.plan_files import read_model, read_plan

plan, folder = read_plan(Path("plan.json")), Path("DIR")
config, generated, seed = read_model(folder, plan)
model = runners.load(folder, config, seed=seed, generated=generated, dtype=plan.dtype, **plan.sizes)
runner = runners.apply(model, plan)  # prepare(batch, prompt, tokens), then generate(ids, tokens)"""
"""The plan without a server, for a model whose files are in DIR."""

VLLM = "pip install '.[gpu]' ./clients/vllm\nKERNELS_PLAN=plan.json vllm serve DIR"
VARIABLES = "VLLM_USE_V2_MODEL_RUNNER=1 KERNELS_SEVERAL_TOKENS=1"
SPECULATIVE_OPTION = """ \\
    --speculative-config '{"method": "ngram_gpu", "num_speculative_tokens": 3}'"""
"""Behind VLLM, with the VARIABLES that turn it on: what a run measures as after within vLLM."""

ROUNDS = "The plan rounds weights; the server has such products for int8 and int4, and for a checkpoint's own fp8."


@dataclass(frozen=True)
class ServeInstructions:
    """`install` is run once in the workbench's source folder, `command` serves the plan and `request` asks it
    something; `notes` are sentences. `vllm` are the commands for a customer's own vLLM, `vllm_measured` is a sentence
    of what the run measured of it, and `python` is the plan without a server. With `refusal` there is none of them but
    the reason.
    """

    install: str = ""
    command: str = ""
    request: str = ""
    notes: tuple[str, ...] = ()
    vllm: str = ""
    vllm_measured: str = ""
    python: str = ""
    refusal: str = ""


def serve_instructions(results: Results, model: ModelManifest | None) -> ServeInstructions | None:
    """None without a verified plan, and for models that generate no text."""
    if results.verify is None or model is None or model.kind != "decoder":
        return None
    plan = served_plan(results)
    if refusal := _refusal(plan, results.verify):
        return ServeInstructions(refusal=refusal)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.name).strip("-.") or "model"
    directory = model.name if model.source == "catalogue" else "DIR"
    request = {"model": name, "prompt": "A list is", "max_tokens": 20}
    gpu_class, uploaded = results.verify.environment.gpu_class, model.source == "upload" and not model.generated
    in_vllm = uploaded and not outside_vllm(model.architecture, gpu_class)
    measured = _measured(results, "vllm")
    extras = "serve" if gpu_class == "cpu" else "gpu,serve"
    return ServeInstructions(
        install=f"pip install '.[{extras}]'",
        command=f"python -m kernels serve --plan plan.json --model {directory} --name {name} --port {PORT}",
        request=f"curl localhost:{PORT}/v1/completions -H 'Content-Type: application/json' -d '{json.dumps(request)}'",
        notes=(
            PACKED + RUNNER_ROUTING.get(str(plan.get("runner")), OTHER_RUNNERS),
            *filter(
                None,
                [
                    size_sentence(plan.get("serving") or {}),
                    megakernel_sentence(plan.get("serving") or {}),
                    results.price.arrangement if results.price else "",
                    _measured(results, "server"),
                    _other_server_note(results),
                ],
            ),
        ),
        vllm=_in_vllm(bool(measured)) if in_vllm else "",
        vllm_measured=measured or "It was not measured in this run.",
        python=PYTHON if model.source == "upload" else "",
    )


def outside_vllm(architecture: str, gpu_class: str = VLLM_CLASSES[0]) -> str:
    """Why the plug-in does not run a plan within vLLM, without a dot; "" where it does."""
    if architecture not in IN_VLLM:
        known = f"{', '.join(IN_VLLM[:-1])} and {IN_VLLM[-1]}"
        return f"the plug-in runs {known} within vLLM, and not {architecture or 'this model'}"
    return "" if gpu_class in VLLM_CLASSES else f"the plug-in runs on {' and '.join(VLLM_CLASSES)}, and not {gpu_class}"


def _in_vllm(several: bool) -> str:
    return VLLM.replace("KERNELS_PLAN", f"{VARIABLES} KERNELS_PLAN") + SPECULATIVE_OPTION if several else VLLM


def _refusal(plan: dict[str, Any], verify: VerifyResult) -> str:
    """Why the plan is not served, in a sentence; "" where it is. Results of older versions keep no reason."""
    if plan.get("serving") is not None:
        return ""
    if rounds_weights(plan):
        return ROUNDS
    if "serving" not in plan:
        return ""
    return verify.not_served or "The workbench's own server cannot serve this plan."


def served_plan(results: Results) -> dict[str, Any]:
    """The verified plan with what its server chose under load, where that was measured; {} before verify."""
    if results.verify is None:
        return {}
    after = results.load.after if results.load else None
    chosen = after.server.settings if after and after.server.kind == "server" else {}
    return results.verify.plan | ({"serving": chosen} if chosen else {})


def rounds_weights(plan: dict[str, Any]) -> bool:
    """Whether the plan holds weights in a precision that the server has no products for."""
    weights = [op.get("case", {}).get("weights") for op in plan.get("ops") or []]
    weights.append((plan.get("options") or {}).get("weights"))
    return any(str(precision or "bf16") not in SERVED for precision in weights)


def _measured(results: Results, kind: str) -> str:
    """What after held under load, where it was of that kind; "" elsewhere."""
    after = results.load.after if results.load else None
    if after is None or after.server.kind != kind or after.limit.held is None:
        return ""
    return f"Measured in this run, by {after.server.label}: {limit_words(after.limit)}."


def _other_server_note(results: Results) -> str:
    """Says of a result whose after was no server that its figures are not this server's; "" elsewhere."""
    after = results.load.after if results.load else None
    if after is None or after.server.kind == "server":
        return ""
    return (
        f"The figures under load, and the prices that stand at them, are of {after.server.label}, not of this server."
    )


def size_sentence(serving: dict[str, Any]) -> str:
    """What the plan says of a server's size, in a sentence."""
    longest = f"{serving['max_model_len']:,}" if serving.get("max_model_len") else "8,192"
    words = f"Up to {serving.get('max_num_seqs') or 64} requests at once, in sequences of up to {longest} tokens"
    if serving.get("basis") != "measured":
        return f"{words}: defaults, not measured."
    rows = ", ".join(map(str, serving["graph_rows"]))
    where = f"{serving['device']}, driver {serving['driver']}" if serving.get("driver") else serving["device"]
    fp8 = " in fp8" if serving.get("kv_cache_dtype") == "fp8" else ""
    pages = f"{plain(serving['kv_bytes'] / 2**30)} GiB of KV pages{fp8}"
    return f"{words}, with {pages} and passes of {rows} single tokens: measured on {where}."


def megakernel_sentence(serving: dict[str, Any]) -> str:
    """Up to how many requests at once go to the megakernel, and by which times; "" where none do."""
    times, up_to = serving.get("token_ms") or {}, serving.get("megakernel_up_to") or 0
    if not up_to:
        return ""
    most = f"The megakernel serves {f'up to {up_to} requests at once' if up_to > 1 else 'one request alone'}"
    if not times:
        return f"{most}."
    (sequences, one, other), *more = [
        (number, plain(times[number]["megakernel"]), plain(times[number]["kernels"]))
        for number in sorted(times, key=int)
    ]
    sentences = [f"A token took {one} ms by it and {other} ms by the library's kernels with {sequences} at once"]
    sentences += [f"{one} and {other} ms with {number}" for number, one, other in more]
    return f"{most}. {'; '.join(sentences)}."
