"""How often a build gate raises a false alarm on two runs of one program.

    python -m benchmarks.simulations.regression_errors

The processes of both runs draw from one distribution, those of `speedup_coverage`, at the spread that was seen of
transformers' `generate` and at a tenth of it. So every regression that is found is a false alarm.
"""

import numpy as np

from benchmarks.simulations.speedup_coverage import FACTORS, MEDIAN_ERROR
from workers.stats.regression import MIN_PROCESSES, regressed

PATHS = 20_000
LIMITS = (0.0, 0.03)
SPREADS = (1.0, 0.1)
SEVERAL = (((4, 5), 2), ((4, 6), 4), ((6, 6), 4), ((6, 6), 8))
COUNTS = ((MIN_PROCESSES, MIN_PROCESSES), (MIN_PROCESSES, 6), (6, 6))


def false_alarms(
    kind: str, counts: tuple[int, int], limit: float, spread: float = 1.0, paths: int = PATHS, metrics: int = 1
) -> float:
    """The share of pairs of runs in which a regression is found, with `counts` processes each.

    The metrics are independent of each other, the worst case: in a real process one that is slow is slow in all.
    """
    generator, alarms = np.random.default_rng(metrics), np.zeros(paths, dtype=bool)
    for _ in range(metrics):
        kept, new = (
            np.exp(
                FACTORS[kind](generator, (paths, count)) * spread
                + generator.normal(0.0, MEDIAN_ERROR * spread, (paths, count))
            )
            for count in counts
        )
        alarms |= [regressed(a, b, limit, metrics) for a, b in zip(kept.tolist(), new.tolist(), strict=True)]
    return float(alarms.mean())


def main() -> None:
    """Prints Markdown tables of the false alarms: of one metric and of both spreads the larger, and of several."""
    heads = [f"{n} and {m}, beyond {limit:.0%}" for n, m in COUNTS for limit in LIMITS]
    print(f"| processes differ by | {' | '.join(heads)} |")
    print(f"| --- |{' --- |' * len(heads)}")
    for kind in FACTORS:
        shares = [
            max(false_alarms(kind, counts, limit, spread) for spread in SPREADS)
            for counts in COUNTS
            for limit in LIMITS
        ]
        print(f"| {kind} | {' | '.join(f'{share:.2%}' for share in shares)} |")
    print(f"| processes differ by | {' | '.join(f'{n} and {m}, {k} metrics' for (n, m), k in SEVERAL)} |")
    print(f"| --- |{' --- |' * len(SEVERAL)}")
    for kind in FACTORS:
        shares = [false_alarms(kind, counts, 0.0, metrics=metrics) for counts, metrics in SEVERAL]
        print(f"| {kind} | {' | '.join(f'{share:.2%}' for share in shares)} |")


if __name__ == "__main__":
    main()
