"""vLLM's engine in a process of vLLM's own Python: reads requests from standard input, answers on standard output.

`kernels.runners.vllm_runner` runs it as a file, since that Python may lack this library. Each line is one JSON
document. The first request starts the engine: `{"model": DIRECTORY, "dtype": NAME, "batch": N, "length": N, "memory":
SHARE, "asynchronous": BOOL}`; the answer is its settings. Every other request is `{"prompts": [[id]], "tokens": N}`,
with any number of prompts and ids. Its answer has `tokens` [batch][new] and two readings of the host's monotonic clock:
`start_ns`, when the request was read, and `times_ns` [new], when a step's ids of all sequences were known. The process
ends when its standard input closes.
"""

import asyncio
import json
import os
import socket
import sys
import time
from typing import Any, TextIO

Arrival = tuple[int, int]
"""A token's id, and when it was known, in ns of the host's monotonic clock."""


def has_network() -> bool:
    """Whether this process may connect to itself. A confined stage may not, nor what it starts."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=1).close()
    except OSError:
        return False
    return True


def join_alone() -> None:
    """Makes vLLM's process groups without a network, by torch's `fake` backend, which opens no socket: one GPU needs no
    communication, but vLLM meets itself over TCP.
    """
    import torch.distributed
    import torch.testing._internal.distributed.fake_pg  # registers the backend
    import vllm.v1.executor.uniproc_executor as executor

    torch.distributed.init_process_group("fake", store=torch.distributed.HashStore(), rank=0, world_size=1)
    real = torch.distributed.new_group
    torch.distributed.new_group = lambda *args, **named: real(*args, **named | {"backend": "fake"})
    executor.get_open_port = lambda: 0


class Engine:
    """vLLM's engine in this process, stepped by a loop."""

    kind = "in process"

    def __init__(self, model: str, arguments: dict[str, Any]) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm

        self.alone = not has_network()
        if self.alone:
            join_alone()
        self._engine = vllm.LLM(model=model, **arguments).llm_engine
        self.config = self._engine.vllm_config

    def serve(self, prompts: dict[str, list[int]], sampling: Any) -> dict[str, list[Arrival]]:
        """Every token of each prompt, by the request's name."""
        arrived: dict[str, list[Arrival]] = {name: [] for name in prompts}
        for name, prompt in prompts.items():
            self._engine.add_request(name, {"prompt_token_ids": prompt}, sampling)
        while self._engine.has_unfinished_requests():
            outputs = self._engine.step()
            now = time.monotonic_ns()
            for output in outputs:
                arrived[output.request_id] += [(token_id, now) for token_id in output.outputs[0].token_ids]
        return arrived


class AsyncEngine:
    """vLLM's asynchronous engine, whose core runs in a process of its own, as behind its server."""

    kind = "asynchronous, its core in a process of its own"
    alone = False

    def __init__(self, model: str, arguments: dict[str, Any]) -> None:
        if not has_network():
            raise RuntimeError("the asynchronous engine needs a network of its own machine")
        self._loop = asyncio.new_event_loop()
        self._engine = self._loop.run_until_complete(self._start_engine(model, arguments))
        self.config = self._engine.vllm_config

    async def _start_engine(self, model: str, arguments: dict[str, Any]) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(model=model, **arguments))

    def serve(self, prompts: dict[str, list[int]], sampling: Any) -> dict[str, list[Arrival]]:
        return self._loop.run_until_complete(self._all(prompts, sampling))

    async def _all(self, prompts: dict[str, list[int]], sampling: Any) -> dict[str, list[Arrival]]:
        arrived = await asyncio.gather(*(self._one(name, prompt, sampling) for name, prompt in prompts.items()))
        return dict(zip(prompts, arrived, strict=True))

    async def _one(self, name: str, prompt: list[int], sampling: Any) -> list[Arrival]:
        arrived: list[Arrival] = []
        async for output in self._engine.generate({"prompt_token_ids": prompt}, sampling, name):
            now = time.monotonic_ns()
            arrived += [(token_id, now) for token_id in output.outputs[0].token_ids]
        return arrived


def start(request: dict[str, Any]) -> tuple[Engine | AsyncEngine, dict[str, Any]]:
    """The engine and the settings that it runs with."""
    import torch
    import vllm

    arguments = {
        "dtype": request["dtype"],
        "max_model_len": request["length"],
        "max_num_seqs": request["batch"],
        "max_num_batched_tokens": max(16384, request["length"]),
        "gpu_memory_utilization": request["memory"],
        "attention_backend": "FLASH_ATTN",
        "enable_prefix_caching": False,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "disable_log_stats": True,
        "seed": 0,
    }
    engine = (AsyncEngine if request["asynchronous"] else Engine)(request["model"], arguments)
    settings = {
        "version": vllm.__version__,
        "torch": torch.__version__,
        "engine": engine.kind,
        "process_group": "fake, of one process" if engine.alone else "nccl and gloo",
        "cudagraph_mode": str(engine.config.compilation_config.cudagraph_mode),
        "async_scheduling": bool(engine.config.scheduler_config.async_scheduling),
        "attention_backend": engine.config.attention_config.backend.name,
        "flash_attn_version": flash_attn_version(),
    }
    return engine, arguments | settings


def flash_attn_version() -> int | None:
    """The FlashAttention that vLLM's backend takes on this GPU; None where this vLLM does not say."""
    try:
        from vllm.v1.attention.backends.fa_utils import get_flash_attn_version
    except ImportError:
        return None
    version: int | None = get_flash_attn_version()
    return version


def generate(engine: Engine | AsyncEngine, request: dict[str, Any], serial: int) -> dict[str, Any]:
    """One batch from its prompts to its last token; end-of-text is ignored."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    start_ns = time.monotonic_ns()
    tokens = request["tokens"]
    greedy = SamplingParams(
        temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA
    )
    prompts = {f"{serial}-{row}": prompt for row, prompt in enumerate(request["prompts"])}
    arrived = list(engine.serve(prompts, greedy).values())
    times_ns = [max(at for _, at in together) for together in zip(*arrived, strict=False)]
    return {"tokens": [[token for token, _ in row] for row in arrived], "times_ns": times_ns, "start_ns": start_ns}


def main(requests: TextIO, answers: TextIO) -> None:
    """Serves requests until standard input ends. An error is answered as `{"error": SENTENCE}`."""
    engine: Any = None
    for serial, line in enumerate(requests):
        request = json.loads(line)
        try:
            if engine is None:
                engine, answer = start(request)
            else:
                answer = generate(engine, request, serial)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints must not reach standard output
    main(sys.stdin, answers)
    answers.flush()
    os._exit(0)  # vLLM's own threads would keep the process alive
