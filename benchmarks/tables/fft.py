"""Tables of long convolutions."""

from benchmarks.documents import Row, rows
from benchmarks.tables.writing import markdown, table

PUBLISHED = {256: 0.11, 1024: 0.29, 4096: 1.43, 8192: 3.58, 16_384: 12.2, 32_768: 26.3, 1 << 20: 1769}
"""ms that FlashFFTConv's paper states for 64 sequences of 768 channels, gated, on an H100. Fu et al., ICLR 2024."""


def _fastest_row(call: str, **where: object) -> Row | None:
    """The row with the least time of a variant and its params; None where it was not timed."""
    timed = [row for row in rows("fft", **where) if row["call"].split()[0] == call]
    return min(timed, key=lambda row: row["ms"], default=None)


def _ms(ms: float | None) -> str:
    return "–" if ms is None else f"{ms:,.0f}" if ms >= 100 else f"{ms:#.3g}"


def _line(ours: Row, **where: object) -> list[str]:
    """Our time, those of the peers, and the best of these over ours."""
    fastest = [_fastest_row(name, **where) for name in ("torch_fft", "torch_fft_compiled", "subquadratic")]
    peers = [None if row is None else row["ms"] for row in fastest]
    best = min(ms for ms in peers if ms)
    return [_ms(ours["ms"]), *map(_ms, peers), f"{best / ours['ms']:.1f}x", f"{ours['gbps']:,.0f}"]


NVIDIA = "subquadratic-ops, ms"
HEADER = ["ours, ms", "torch, ms", "torch, compiled, ms", NVIDIA, "times the best", "GB/s"]


@table("fft")
def fft() -> str:
    """64 sequences of 768 channels, gated, beside what FlashFFTConv's paper states."""
    lines = []
    for length, published in PUBLISHED.items():
        where = {"width": 768, "length": length}
        ours = _fastest_row("monarch", **where) or _fastest_row("monarch_long", **where)
        if ours is not None:
            batch = ours["case"]["batch"]
            of_64 = "" if batch == 64 else f", {batch} of the 64 sequences"
            stated = published * batch / 64
            line = _line(ours, **where)
            lines.append([f"{length:,}{of_64}", line[0], _ms(stated), *line[1:]])
    return markdown(["length", HEADER[0], "FlashFFTConv, H100, stated, ms", *HEADER[1:]], lines)


@table("fft-short")
def fft_short() -> str:
    """One sequence of 4,096 channels, gated, with few taps."""
    lines = []
    for length, taps in ((8192, 7), (8192, 128), (131_072, 128)):
        where = {"width": 4096, "length": length, "filter": taps}
        ours, *others = (
            _fastest_row(name, **where) for name in ("toeplitz", "torch_conv1d", "torch_fft", "subquadratic")
        )
        if ours is not None:
            peers = [row["ms"] if row else None for row in others]
            best = min(ms for ms in peers if ms) / ours["ms"]
            figures = [_ms(ours["ms"]), *map(_ms, peers), f"{best:.1f}x", f"{ours['gbps']:,.0f}"]
            lines.append([f"{length:,}", str(taps), *figures])
    header = ["length", "taps", "ours, ms", "torch's conv1d, ms", "torch's transforms, ms", *HEADER[3:]]
    return markdown(header, lines)


@table("fft-wide")
def fft_wide() -> str:
    """One sequence of 4,096 channels, gated."""
    lines = []
    for length in (1 << log for log in range(13, 18)):
        where = {"width": 4096, "length": length, "filter": length}
        ours = _fastest_row("monarch", **where) or _fastest_row("monarch_long", **where)
        if ours is not None:
            lines.append([f"{length:,}", *_line(ours, **where)])
    return markdown(["length", *HEADER], lines)
