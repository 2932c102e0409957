"""vLLM's engine in a process of vLLM's own Python: reads requests from standard input, answers on standard output.

`kernels.engine.vllm_runner` runs it as a file, since that Python may lack this library. Each line is one JSON document.
The first request starts the engine: `{"model": DIRECTORY, "dtype": NAME, "batch": N, "length": N, "memory": SHARE}`;
the answer is its settings. Every other request is `{"prompts": [[id]], "tokens": N}`, with any number of prompts and
ids. Its answer has `tokens` [batch][new] and two readings of the host's monotonic clock: `start_ns`, when the request
was read, and `times_ns` [new], when a step's ids of all sequences were known. The process ends when its standard input
closes.
"""

import json
import os
import socket
import sys
import time
from typing import Any, TextIO


def has_network() -> bool:
    """Whether this process may connect to itself. A confined stage may not, nor what it starts."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=1).close()
    except OSError:
        return False
    return True


def join_alone() -> None:
    """Makes vLLM's process groups without a network.

    One GPU needs no communication, but vLLM rendezvouses with itself over TCP. torch's `fake` backend holds groups of
    one process and opens no socket.
    """
    import torch.distributed
    import torch.testing._internal.distributed.fake_pg  # registers the backend
    import vllm.v1.executor.uniproc_executor as executor

    torch.distributed.init_process_group("fake", store=torch.distributed.HashStore(), rank=0, world_size=1)
    real = torch.distributed.new_group
    torch.distributed.new_group = lambda *given, **named: real(*given, **named | {"backend": "fake"})
    executor.get_open_port = lambda: 0


def start(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The engine, in this process, and the settings that it runs with."""
    import vllm

    if alone := not has_network():
        join_alone()
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
    engine = vllm.LLM(model=request["model"], **arguments).llm_engine
    config = engine.vllm_config
    found = {
        "version": vllm.__version__,
        "engine": "in process",
        "process_group": "fake, of one process" if alone else "nccl and gloo",
        "cudagraph_mode": str(config.compilation_config.cudagraph_mode),
        "async_scheduling": bool(config.scheduler_config.async_scheduling),
    }
    return engine, arguments | found


def generate(engine: Any, request: dict[str, Any], serial: int) -> dict[str, Any]:
    """One batch from its prompts to its last token; end-of-text is ignored."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    start_ns = time.monotonic_ns()
    wanted = request["tokens"]
    greedy = SamplingParams(
        temperature=0.0, max_tokens=wanted, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA
    )
    names = [f"{serial}-{row}" for row in range(len(request["prompts"]))]
    tokens: dict[str, list[int]] = {name: [] for name in names}
    for name, prompt in zip(names, request["prompts"], strict=True):
        engine.add_request(name, {"prompt_token_ids": prompt}, greedy)
    times_ns: list[int] = []
    while engine.has_unfinished_requests():
        outputs = engine.step()
        now = time.monotonic_ns()
        for output in outputs:
            tokens[output.request_id] += output.outputs[0].token_ids
        complete = min(len(each) for each in tokens.values())
        times_ns += [now] * (complete - len(times_ns))
    return {"tokens": [tokens[name] for name in names], "times_ns": times_ns, "start_ns": start_ns}


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
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints must not reach standard output
    main(sys.stdin, answers)
    answers.flush()
    os._exit(0)  # vLLM's own threads would keep the process alive
