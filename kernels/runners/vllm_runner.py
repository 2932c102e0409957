"""vLLM as a runner, beside this library's, on the same weights.

vLLM pins its own torch, so it needs an environment of its own. `KERNELS_VLLM_PYTHON` names that environment's Python;
when it is unset, the runner is not available. The model's weights are written once to a temporary directory, from which
vLLM loads them.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernels.measure import nvml
from kernels.ops.sampling import Samplings
from kernels.runners.base import Generation, Runner, check_request

PYTHON_VARIABLE = "KERNELS_VLLM_PYTHON"
SCRIPT = Path(__file__).with_name("vllm_process.py")
START_SECONDS, REQUEST_SECONDS = 300.0, 120.0
MEMORY_SHARE = 0.35
"""Share of the GPU's memory for vLLM's weights and KV cache; the other runners need the rest."""
FREE_SHARE = 0.9
"""vLLM may take at most this share of the memory that is free on a GPU which this process uses as well."""
LOG_TAIL = 600
"""Characters of vLLM's log that an error quotes."""
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "VLLM_HOST_IP": "127.0.0.1"}
QUIET |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Variables that keep vLLM from looking for a network."""


def memory_share() -> float | None:
    """The share of the current GPU's memory that vLLM may take now; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    available, total = torch.cuda.mem_get_info()
    return round(FREE_SHARE * available / total, 2)


def environment() -> dict[str, str]:
    """This process's variables, less those that would lead another Python to this one's packages."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return variables | QUIET | _visible(os.environ.get("CUDA_VISIBLE_DEVICES", ""), nvml.number)


def _visible(named: str, number_of: Callable[[], int | None]) -> dict[str, str]:
    """The variables that show vLLM the first GPU of those `named` by UUID: vLLM takes numbers only."""
    if not any(name.strip().startswith("GPU-") for name in named.split(",")) or (number := number_of()) is None:
        return {}
    return {"CUDA_VISIBLE_DEVICES": str(number), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


class VllmRunner(Runner):
    """vLLM's engine: CUDA graphs, FlashAttention, asynchronous scheduling.

    It runs in one process, stepped by a loop; with `options["asynchronous"]` it is the engine of vLLM's server. Each
    `prepare` starts a fresh process. The start of a request that it states is taken in vLLM's process. `Clients` count
    from when they hand the prompt over, so the transfer to that process counts. Greedy only. It gives no logits: it is
    judged by its ids. `options["memory"]` is its share of the GPU's memory, `options["start_seconds"]` how long it may
    take to start.
    """

    name = "vllm"
    gives_logits = False
    starts_process = True

    def __init__(self, model: torch.nn.Module, options: dict[str, Any] | None = None) -> None:
        super().__init__(model, options)
        self._process: subprocess.Popen[str] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="vllm-")

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        """Raises RuntimeError without an environment of vLLM, and with vLLM's own words when it does not start."""
        self._stop()
        if not os.environ.get(PYTHON_VARIABLE):
            raise RuntimeError(f"{PYTHON_VARIABLE} is not set: it names the Python of the environment that holds vLLM")
        model = Path(self._directory.name) / "model"
        if not model.exists():
            self.model.save_pretrained(model, safe_serialization=True)
        with (Path(self._directory.name) / "log").open("w") as log:
            self._process = subprocess.Popen(
                [os.environ[PYTHON_VARIABLE], str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=environment(),
            )
        memory, dtype = self.options.get("memory", MEMORY_SHARE), str(self.model.dtype).removeprefix("torch.")
        request = {"model": str(model), "dtype": dtype, "batch": batch, "length": prompt + tokens, "memory": memory}
        request["asynchronous"] = bool(self.options.get("asynchronous"))
        self.settings = self._ask(request, self.options.get("start_seconds", START_SECONDS))
        ids = torch.randint(self.model.config.vocab_size, (batch, prompt), generator=torch.Generator().manual_seed(1))
        for _ in range(3):
            self.generate(ids, tokens)

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Samplings = None) -> Generation:
        check_request(prompt, tokens)
        if sampling is not None:
            raise ValueError("sampling: the vllm runner is measured greedy only")
        answer = self._ask({"prompts": prompt.tolist(), "tokens": tokens}, REQUEST_SECONDS)
        return Generation(answer["tokens"], answer["times_ns"], answer["start_ns"])

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        raise ValueError("the vllm runner gives no logits: what it serves is judged by its ids")

    def close(self) -> None:
        self._stop()
        self._directory.cleanup()
        super().close()

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to one request. Raises RuntimeError in a sentence when none arrives within `seconds`."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("vLLM is not running: prepare starts it")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                line = process.stdout.readline() if selector.select(seconds) else ""
        except BrokenPipeError:
            line = ""
        if not line:
            self._stop()
            log = " ".join((Path(self._directory.name) / "log").read_text(errors="replace").split())[-LOG_TAIL:]
            raise RuntimeError(f"vLLM gave no answer within {seconds:g} s; its log ends: {log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"vLLM: {answer['error']}")
        return answer

    def _stop(self) -> None:
        """Ends the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
