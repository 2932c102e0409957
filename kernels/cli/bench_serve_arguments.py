"""The command line of `bench serve`. Imports without torch."""

import argparse

from kernels.cli.numbers import positive, seconds

OPTIONS = (
    "model",
    "prompt",
    "users",
    "tokens",
    "vllm",
    "vllm_option",
    "vllm_api_servers",
    "vllm_plugin",
    "own_option",
    "weights",
    "kv_cache_dtype",
    "poisson",
    "rate",
)
"""Options that say something only to `serve`, or to `decode` as well."""


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bench serve` beside those that it shares with `bench decode`."""
    group = parser.add_argument_group("serve")
    group.add_argument("--users", action="append", type=positive, metavar="N", help="serve: users at once; repeatable")
    group.add_argument("--tokens", type=positive, metavar="N", help="serve: tokens of an answer (default 64)")
    group.add_argument("--vllm", metavar="PYTHON", help="serve: the Python of vLLM's environment, to stand beside it")
    group.add_argument(
        "--vllm-option", action="append", metavar="TEXT", help="serve: a further option of vLLM's server"
    )
    group.add_argument("--vllm-api-servers", type=positive, metavar="N", help="serve: vLLM again, with N API servers")
    group.add_argument(
        "--vllm-plugin", action="store_true", help="serve: vLLM again, with its plug-in of this library and a plan"
    )
    group.add_argument(
        "--own-option", action="append", metavar="TEXT", help="serve: a further option of `kernels serve`"
    )
    group.add_argument("--kv-cache-dtype", choices=("fp8",), help="serve: the precision of every server's KV cache")
    group.add_argument(
        "--poisson",
        type=seconds,
        metavar="SECONDS",
        help="serve: also Poisson arrivals for so long, at 80 %% of capacity",
    )
    group.add_argument("--rate", type=seconds, help="serve: requests a second of the Poisson arrivals, instead")
    group.add_argument("--ttft-ms", type=seconds, default=200.0, help="serve: first token of a good request (200)")
    group.add_argument("--tpot-ms", type=seconds, default=20.0, help="serve: ms a further token of a good request (20)")
