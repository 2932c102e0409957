"""The table of the server beside vLLM's, through HTTP."""

import re
from collections.abc import Sequence
from itertools import product

from benchmarks.documents import Row, one, rows
from benchmarks.tables.writing import markdown, table
from kernels.load.lag import too_late

USERS = (1, 8, 32, 128, 256)
LATENCIES = (("ttft_ms", 1), ("ttf64_ms", 1), ("tpot_ms", 2))
"""Keys of a row, and their decimals."""
PEERS = ("vllm", "vllm_api_servers")
"""vLLM with one API server, and with several."""
API_SERVERS = re.compile(r"--api-server-count=(\d+)")
UNEQUAL = "log-normal, sigma 0.8, up to 4 times the median"
"""How a document names unequal lengths."""
LATE = " †"
"""Behind figures of a load whose generator was late itself."""


@table("serve")
def serve() -> str:
    """Closed loops of so many users: tokens a second and medians of the first 64 tokens; vLLM's faster setting."""
    return _tokens("serve")


def _tokens(name: str) -> str:
    lines = []
    for users in USERS:
        peer = max((_row(variant, users, name) for variant in PEERS), key=lambda row: float(row["tokens_per_second"]))
        ours = _row("kernels", users, name)
        quotient = f"{ours['tokens_per_second'] / peer['tokens_per_second']:.2f}x{_late(peer) or _late(ours)}"
        speeds = [f"{row['tokens_per_second']:,.0f}{_late(row)}" for row in (peer, ours)]
        times = [f"{row['ttf64_ms']['p50']:,.0f} ms{_late(row)}" for row in (peer, ours)]
        lines.append([str(users), speeds[0], _api_servers(peer), speeds[1], quotient, *times])
    version = _row("vllm", USERS[0], name)["settings"]["version"]
    vllm = f"vLLM {version}"
    return markdown(
        ["users", f"{vllm}, tokens/s", "its API servers", "this server", "", f"{vllm}, first 64 tokens", "this server"],
        lines,
    )


@table("serve-beside-vllm")
def beside_vllm() -> str:
    """Each load by both servers: tokens a second, share of the floor's, latencies as medians and 99th percentiles."""
    return _latencies("serve")


@table("serve-qwen-beside-vllm")
def qwen_beside_vllm() -> str:
    """The same of Qwen2.5-1.5B."""
    return _latencies("serve-qwen2.5-1.5b")


def _latencies(name: str) -> str:
    lines = []
    for users in USERS:
        for variant in (*PEERS, "kernels"):
            row = _row(variant, users, name)
            share = row["tokens_per_second"] / row["floor_tokens_per_second"]
            times = [f"{row[key]['p50']:,.{digits}f} ({row[key]['p99']:,.{digits}f})" for key, digits in LATENCIES]
            lines.append(
                [
                    str(users),
                    f"{_label(row)}{_late(row)}",
                    f"{row['tokens_per_second']:,.0f}",
                    f"{share:.0%}".replace("%", " %"),
                    *times,
                ]
            )
    header = ["users", "", "tokens/s", "of the floor's", "TTFT, ms", "TTF64, ms", "TPOT, ms"]
    return markdown(header, lines)


WITHIN_VLLM = re.compile(r"vllm(_plugin)?(?:-(\w+))?(?:\+(\d)(eager)?)?")
"""Names of the servers of the documents vllm-plugin-*.json: with the plug-in, its weights, further tokens in a pass,
and whether they are launched kernel by kernel beside prompts.
"""


@table("vllm-plugin")
def within_vllm() -> str:
    """vLLM without and with the plug-in, by model and users: both turns, and the quotient of their mean TPOT."""
    lines = []
    models = ("turns", "qwen2.5-1.5b", "8b", "qwen3-30b-a3b")
    for name, users in product(models, (1, 8, 32, 128)):
        if measured := rows(f"vllm-plugin-{name}", concurrency=users, lengths="equal"):
            turns = {variant: [row for row in measured if row["variant"] == variant] for variant in _names(measured)}
            mean = {variant: sum(row["tpot_ms"]["p50"] for row in each) / len(each) for variant, each in turns.items()}
            for variant, each in turns.items():
                speed = ", ".join(f"{row['tokens_per_second']:,.0f}{_late(row)}" for row in each)
                times = ", ".join(f"{row['tpot_ms']['p50']:.2f}" for row in each)
                quotient = f"{mean[variant] / mean['vllm']:.2f}"
                lines.append([each[0]["case"]["model"], str(users), _within(variant), speed, times, quotient])
    return markdown(["model", "users", "", "tokens/s", "TPOT p50, ms", "over vLLM's"], lines)


@table("vllm-plugin-graphs")
def drafts_within_vllm() -> str:
    """The same with drafts beside prompts launched kernel by kernel and from graphs, also with unequal lengths."""
    lines = []
    loads = [("vllm-plugin-graphs", users, "equal") for users in (1, 8, 32)]
    loads += [(name, 32, UNEQUAL) for name in ("vllm-plugin-graphs", "vllm-plugin-qwen2.5-1.5b")]
    for name, users, lengths in loads:
        measured = rows(name, concurrency=users, lengths=lengths)
        vllm = sum(row["tokens_per_second"] for row in measured if row["variant"] == "vllm")
        for variant in _names(measured):
            each = [row for row in measured if row["variant"] == variant]
            speeds = [row["tokens_per_second"] for row in each]
            times = [", ".join(f"{row[key]['p50']:.{digits}f}" for row in each) for key, digits in LATENCIES[::2]]
            load = [
                each[0]["case"]["model"],
                str(users),
                lengths if lengths == "equal" else "unequal",
                _within(variant),
            ]
            lines.append([*load, ", ".join(f"{speed:,.0f}" for speed in speeds), f"{sum(speeds) / vllm:.2f}", *times])
    header = ["model", "users", "lengths", "", "tokens/s", "over vLLM's", "TTFT p50, ms", "TPOT p50, ms"]
    return markdown(header, lines)


def _names(measured: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["variant"] for row in measured))


def _within(variant: str) -> str:
    match = WITHIN_VLLM.fullmatch(variant)
    assert match is not None, variant
    several = f"{int(match[3]) + 1} tokens a pass" if match[3] else ""
    eager = "without graphs beside prompts" if match[4] else ""
    return ", ".join(filter(None, ["with the plug-in" if match[1] else "vLLM", match[2], several, eager]))


def _row(variant: str, users: int, name: str) -> Row:
    return one(name, variant=variant, concurrency=users, lengths="equal")


def _api_servers(row: Row) -> str:
    """How many API servers vLLM was started with."""
    match = API_SERVERS.search(row["settings"]["options"])
    return match[1] if match else "1"


def _label(row: Row) -> str:
    if row["variant"] == "kernels":
        return "this server"
    count = _api_servers(row)
    return "vLLM" if count == "1" else f"vLLM, {count} API servers"


def _late(row: Row) -> str:
    """The mark of a void load; "" where the generator was in time."""
    generator = row["generator"]
    return LATE if too_late(generator["send_late_ms"], generator["read_late_ms"]) else ""
