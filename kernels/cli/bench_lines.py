"""The lines that `python -m kernels bench` prints."""

from collections.abc import Mapping
from typing import Any

from kernels.cli.bench_document import BenchRow


def row_line(row: BenchRow) -> str:
    """One row: the variant, the gate's answer, the time with its interval, rates, the share of the floor, the shape."""
    if row.ttf64_ms is not None:
        return _decode_line(row)
    shape = fields_line(row.case) + (f" | {fields_line(row.params)}" if row.params else "")
    if row.ms is None:
        return f"{row.variant:<22} {row.gate:<10} {shape}: {row.reason}"
    share = f"{row.floor_share:6.1%} of floor" if row.floor_share is not None else "     – of floor"
    rate = f"{row.tflops or 0:8.2f} TFLOP/s {row.gbps or 0:8.1f} GB/s {share}"
    ratio = f" {row.ratio_to_best_peer:5.2f}x" if row.ratio_to_best_peer else ""
    host = f" host {row.host_us:5.1f} µs" if row.host_us else ""
    interval = f"{row.ms:9.4f} ms [{row.ms_low:.4f}, {row.ms_high:.4f}]"
    return f"{row.variant:<22} {row.gate:<10} {interval} {rate}{ratio}{host}{_settled(row)} {shape}"


def _settled(row: BenchRow) -> str:
    """` settled 0.1234 ms  97.1% of floor  1.02x`"""
    if row.settled is None:
        return ""
    share = f" {row.settled.floor_share:6.1%} of floor" if row.settled.floor_share is not None else ""
    ratio = f" {row.settled.ratio_to_best_peer:5.2f}x" if row.settled.ratio_to_best_peer else ""
    return f" settled {row.settled.ms:.4f} ms{share}{ratio}"


def ceilings_line(ceilings: Mapping[str, Any]) -> str:
    """`Ceilings here: 4.61 TB/s read, 4.26 TB/s copied, bf16 690 TFLOP/s; an empty launch takes 5.1 µs.`"""
    sentence = f"Ceilings here: {_rates(ceilings)}; an empty launch takes {ceilings['launch_us']:.2g} µs."
    return f"{sentence} In bursts: {_rates(ceilings['burst'])}." if ceilings.get("burst") else sentence


def _rates(ceilings: Mapping[str, Any]) -> str:
    by_precision = ceilings["matrix_tflops"].items()
    rates = ", ".join(f"{name} {rate:{',.0f' if rate >= 100 else '.3g'}} TFLOP/s" for name, rate in by_precision)
    return f"{ceilings['read_tbps']:.3g} TB/s read, {ceilings['copy_tbps']:.3g} TB/s copied, {rates}"


def fields_line(values: Mapping[str, Any]) -> str:
    """The fields of a case or of params in one line, without those that are None: `m=1 n=2048 k=2048`."""
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not None and name != "op")


def _decode_line(row: BenchRow) -> str:
    """First 64 tokens, a decode step and its share of the read bandwidth, and how much faster than the best peer."""
    case = row.case
    group = f"{case['model']} {case['weights']} batch {case['batch']} prompt {case['prompt']}"
    share = f"{row.read_share:6.1%} of read" if row.read_share else ""
    ratio = f" {row.ratio_to_best_peer:5.2f}x" if row.ratio_to_best_peer else ""
    judged = "" if row.judged is None else f", {row.judged} judged"
    judged = f", {len(row.processes_ms)} processes{judged}" if row.processes_ms else judged
    return (
        f"{group:<40} {row.variant:<22} {row.gate:<10} {row.ttf64_ms:8.2f} ms [{row.ms_low:.2f}, {row.ms_high:.2f}] "
        f"{row.ms_per_token:7.4f} ms/token {share}{ratio} ({row.rounds} rounds{judged}){_fidelity(row)}"
    )


def _fidelity(row: BenchRow) -> str:
    if row.kl is None or row.disagreement is None:
        return ""
    torch = "" if row.torch_kl is None else f" (torch's {row.torch_kl:.2g})"
    sentence = f" KL {row.kl:.2g} nats{torch}, other token {row.disagreement:.2%} of {row.tokens:,}"
    if row.own_mean_gap is None or row.own_largest_gap is None:
        return sentence
    return f"{sentence}, own ids {row.own_mean_gap:.2g} below the best, {row.own_largest_gap:.2g} at most"
