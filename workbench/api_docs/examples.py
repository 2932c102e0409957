"""Calls of each operation, with curl and with the generated Python client. A test runs every one."""

import json
from typing import Any

WORKLOAD = {
    "name": "voice agent",
    "model": "llama-3.2-1b",
    "traffic": {"prompt_tokens": 128, "output_tokens": 64},
    "objectives": [{"metric": "ttf_n", "n": 64, "percentile": 50, "limit": 100}],
}
OF_BRACES = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""The SHA-256 of `{}`."""
PRICES = {
    "name": "Of the contract",
    "date": "2026-01-01",
    "source": "contract",
    "prices": [{"gpu_class": "h200", "name": "NVIDIA H200", "low": 2.5, "typical": 3.5, "high": 7.0}],
}
RATES = {"read_tbps": 4.1, "copy_tbps": 3.9, "matrix_tflops": {"bf16": 700}}
BRING_UP = {
    "environment": {"device": "NVIDIA X900", "gpu_class": "x900", "versions": {}, "at": "2026-11-23T10:00:00Z"},
    "entry": {
        "gpu_class": "x900",
        "name": "NVIDIA X900",
        "sm": 90,
        "sms": 132,
        "bf16_tflops": 700,
        "fp8_tflops": 1400,
        "memory_tbps": 4.8,
        "memory_gib": 131,
        "watts": 700,
    },
    "ceilings": RATES | {"launch_us": 2.1},
    "quick": True,
    "stranger": False,
    "minutes": 4.5,
    "proofs": [],
    "races": [],
    "models": [],
    "next_steps": [],
    "stopped": {},
    "left_out": [],
}
"""A bring-up of a GPU that does not exist, which found nothing yet."""
BODIES: dict[str, Any] = {
    "make_token": {"name": "nightly build", "scope": "write", "days": 90},
    "select_files": {"paths": ["config.json", "model.safetensors", "pytorch_model.bin"]},
    "create_upload": {"name": "my model", "files": [{"path": "config.json", "size": 2, "sha256": OF_BRACES}]},
    "finish_upload": {"files": []},
    "submit_workload": WORKLOAD,
    "add_prices": PRICES,
    "create_webhook": {"url": "https://hooks.example.com/workbench"},
    "label_workload": {"project": "Voice"},
    "start_run": {"workload": "$WORKLOAD_ID"},
    "label_run": {"tags": ["nightly", "candidate"]},
    "freeze_report": {"run": "$RUN_ID"},
    "add_bring_up": BRING_UP,
    "review_report": {"note": "Safe to promise *for this prompt length*."},
}
"""The JSON body of each operation that takes one. `$NAME` is a variable."""


def as_json(value: Any, indent: int | None = None) -> str:
    """The value as people write it."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _required(operation: dict[str, Any], where: str) -> list[str]:
    return [p["name"] for p in operation.get("parameters", []) if p["in"] == where and p.get("required")]


def _media_type(part: dict[str, Any]) -> str:
    return next(iter(part.get("content", {})), "")


def curl(path: str, method: str, operation: dict[str, Any]) -> str:
    """The call with curl. Parameters are variables of the shell: `$RUN_ID`."""
    address = path
    for name in _required(operation, "path"):
        address = address.replace(f"{{{name}}}", f"${name.upper()}")
    query = "&".join(f"{name}=${name.upper()}" for name in _required(operation, "query"))
    address += f"?{query}" if query else ""
    verb = "" if method == "get" or (method == "post" and "requestBody" in operation) else f" -X {method.upper()}"
    lines = [f'curl -sS{verb} "$WORKBENCH_URL{address}"', '-H "Authorization: Bearer $WORKBENCH_TOKEN"']
    lines += [f'-H "{name}: 0"' for name in _required(operation, "header")]
    sent = _media_type(operation.get("requestBody", {}))
    answered = _media_type(next(iter(operation["responses"].values())))
    if answered and answered != "application/json":
        lines += ["--output " + ("report.html" if answered == "text/html" else "answer")]
    if sent:
        lines += [f'-H "Content-Type: {sent}"']
    if sent == "application/json":
        body = as_json(BODIES.get(operation["operationId"], {}), 2)
        return " \\\n  ".join([*lines, f"--data-binary @- <<END\n{body}\nEND"])
    return " \\\n  ".join([*lines, "--data-binary @config.json"] if sent else lines)


def python(path: str, operation: dict[str, Any]) -> str:
    """The call with the generated client. Parameters are variables: `run_id`."""
    name, tag = operation["operationId"], operation["tags"][0]
    imports = [f"from kernel_workbench_client.api.{tag} import {name}"]
    named = [f"{query}={query}" for query in _required(operation, "query")]
    arguments = [*_required(operation, "path"), "client=client", *named]
    sent = operation.get("requestBody", {})
    if _media_type(sent) == "application/json":
        kind = sent["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        imports += [f"from kernel_workbench_client.models import {kind}"]
        body = _literal(BODIES.get(name, {}))
        arguments += [f"body={kind}.from_dict({body})"]
    elif sent:
        imports += ["from kernel_workbench_client.types import File"]
        arguments += ['body=File(open("config.json", "rb"))', "upload_offset=0"]
    return "\n".join([*imports, "", f"answer = {name}.sync_detailed({', '.join(arguments)})"])


def _literal(body: Any) -> str:
    """The body as Python; a value `$RUN_ID` becomes the variable `run_id`."""
    text = repr(body)
    for name in ("WORKLOAD_ID", "RUN_ID"):
        text = text.replace(f"'${name}'", f"str({name.lower()})")
    return text.replace("'", '"')
