"""A stand-in for vLLM, which needs a GPU: a folder like a virtual environment, with a package `vllm` of few lines."""

import sys
from pathlib import Path

PACKAGE = '''
from types import SimpleNamespace as Some

__version__ = "0.0"


class SamplingParams:
    def __init__(self, **given):
        self.max_tokens = given["max_tokens"]


class LLM:
    """Answers with {ids}; the second sequence starts a step late, as chunked prefill makes it."""

    def __init__(self, model, dtype, **given):
        compilation, scheduler = Some(cudagraph_mode="FULL"), Some(async_scheduling=True)
        self.llm_engine = self
        attention = Some(backend=Some(name="FLASH_ATTN"))
        self.vllm_config = Some(
            compilation_config=compilation, scheduler_config=scheduler, attention_config=attention
        )
        self.left, self.ids = {{}}, {{}}
        self.join()
        self.load(model, dtype)

    def join(self):
        import torch.distributed as groups
        from vllm.v1.executor import uniproc_executor
        if not groups.is_initialized():
            port = uniproc_executor.get_open_port()
            groups.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{{port}}", rank=0, world_size=1)
        group = groups.new_group([0], backend="gloo")
        assert groups.get_world_size(group) == 1

    {engine}

    def add_request(self, name, prompt, sampling):
        if len(prompt["prompt_token_ids"]) > 30:
            raise ValueError("the prompt is too long")
        self.left[name] = sampling.max_tokens + len(self.left)
        self.ids[name] = list(prompt["prompt_token_ids"])

    def has_unfinished_requests(self):
        return bool(self.left)

    def step(self):
        ready = [name for row, name in enumerate(self.left) if row == 0 or self.left[name] <= 4]
        for name in list(self.left):
            self.left[name] -= 1
            if not self.left[name]:
                del self.left[name]
        return [Some(request_id=name, outputs=[Some(token_ids=[self.next(name)])]) for name in ready]
'''
SEVENS = """def load(self, model, dtype):
        pass

    def next(self, name):
        return 7"""
HONEST = """def load(self, model, dtype):
        import torch, transformers
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))

    def next(self, name):
        with self.torch.no_grad():
            logits = self.model(self.torch.tensor([self.ids[name]])).logits
        self.ids[name].append(int(logits[0, -1].argmax()))
        return self.ids[name][-1]"""
ASYNC_LLM = """
from types import SimpleNamespace as Some

from vllm import LLM


class AsyncLLM:
    @classmethod
    def from_engine_args(cls, given):
        made = cls()
        made.engine = LLM(**given)
        made.vllm_config = made.engine.vllm_config
        return made

    async def generate(self, prompt, sampling, name):
        self.engine.add_request(name, prompt, sampling)
        self.engine.left[name] = sampling.max_tokens
        while name in self.engine.left:
            self.engine.left[name] -= 1
            if not self.engine.left[name]:
                del self.engine.left[name]
            yield Some(request_id=name, outputs=[Some(token_ids=[self.engine.next(name)])])
"""
EXECUTOR = """
import socket


def get_open_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
"""


SERVER = """
import argparse
import json
import os
import pathlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = argparse.ArgumentParser()
arguments.add_argument("command", choices=["serve"])
arguments.add_argument("model")
for name in ("served-model-name", "host", "port", "dtype", "max-model-len", "max-num-seqs"):
    arguments.add_argument(f"--{name}", required=True)
given, options = arguments.parse_known_args()
folder = pathlib.Path(given.model)
if "KERNELS_PLAN" in os.environ:
    assert json.loads(pathlib.Path(os.environ["KERNELS_PLAN"]).read_text())["runner"]
    print(LOG, flush=True)
assert list(folder.glob("*.safetensors"))
vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words, wanted = asked["prompt"].split(), asked["max_tokens"]
        assert asked["model"] == given.served_model_name
        assert set(words) <= set(vocabulary)
        if len(words) + wanted > int(given.max_model_len):
            self.send_response(400)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(wanted):
            time.sleep(0.001)
            reason = "length" if at == wanted - 1 else None
            choice = {"index": 0, "text": " t7", "finish_reason": reason}
            if GIVES_IDS and asked.get("return_token_ids"):
                choice["token_ids"] = [7]
                if not at:
                    choice["prompt_token_ids"] = [vocabulary[word] for word in words]
            self.event({"choices": [choice]})
        self.event({"choices": [], "usage": {"prompt_tokens": len(words), "completion_tokens": wanted}})
        self.chunk(b"data: [DONE]\\n\\n")
        self.chunk(b"")

    def event(self, document):
        self.chunk(b"data: " + json.dumps(document).encode() + b"\\n\\n")

    def chunk(self, data):
        self.wfile.write(b"%x\\r\\n" % len(data) + data + b"\\r\\n")


ThreadingHTTPServer((given.host, int(given.port)), Handler).serve_forever()
"""


def program(folder: Path, script: str) -> Path:
    """A program `folder/bin/python` that runs the shell's `script`."""
    result = folder / "bin" / "python"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(f"#!/bin/sh\n{script}\n")
    result.chmod(0o755)
    return result


def environment(folder: Path, honest: bool = True, log: str = "") -> Path:
    """Makes `folder` an environment of the stand-in and gives its Python; one that is not honest answers with id 7."""
    package = folder / "site" / "vllm"
    (package / "v1" / "executor").mkdir(parents=True)
    (package / "v1" / "__init__.py").touch()
    (package / "v1" / "executor" / "__init__.py").touch()
    (package / "v1" / "executor" / "uniproc_executor.py").write_text(EXECUTOR)
    (package / "v1" / "engine").mkdir()
    (package / "v1" / "engine" / "async_llm.py").write_text(ASYNC_LLM)
    (package / "engine").mkdir()
    (package / "engine" / "arg_utils.py").write_text("AsyncEngineArgs = dict\n")
    (package / "v1" / "attention" / "backends").mkdir(parents=True)
    (package / "v1" / "attention" / "backends" / "fa_utils.py").write_text(
        "def get_flash_attn_version():\n    return 3\n"
    )
    ids, engine = ("the model's most likely ids", HONEST) if honest else ("id 7", SEVENS)
    (package / "__init__.py").write_text(PACKAGE.format(ids=ids, engine=engine))
    (package / "entrypoints" / "cli").mkdir(parents=True)
    (package / "entrypoints" / "cli" / "main.py").write_text(f"GIVES_IDS, LOG = {not honest}, {log!r}\n{SERVER}")
    for name in ("vllm", *(["kernel-workbench-vllm"] if log else [])):
        facts = folder / "site" / f"{name.replace('-', '_')}-0.0.dist-info" / "METADATA"
        facts.parent.mkdir()
        facts.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0\n")
    (package / "sampling_params.py").write_text("class RequestOutputKind:\n    DELTA = 1\n")
    return program(folder, f'PYTHONPATH="{folder / "site"}" exec "{sys.executable}" "$@"')
