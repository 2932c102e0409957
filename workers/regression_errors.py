"""How often a build gate raises a false alarm on two runs of one program: `python -m workers.regression_errors`.

The processes of both runs draw from one distribution, those of `workers.speedup_coverage`, at the spread that was seen
of transformers' `generate` and at a tenth of it. So every regression that is found is a false alarm.
"""

import numpy as np

from workers.regression import LEAST_PROCESSES, regressed
from workers.speedup_coverage import FACTORS, MEDIAN_ERROR

PATHS = 20_000
LIMITS = (0.0, 0.03)
SPREADS = (1.0, 0.1)
COUNTS = ((LEAST_PROCESSES, LEAST_PROCESSES), (LEAST_PROCESSES, 6), (6, 6))


def false_alarms(
    kind: str, counts: tuple[int, int], limit: float, spread: float = 1.0, paths: int = PATHS, seed: int = 1
) -> float:
    """The share of pairs of runs in which a regression is found, with `counts` processes each."""
    generator = np.random.default_rng(seed)
    kept, new = (
        np.exp(
            FACTORS[kind](generator, (paths, count)) * spread
            + generator.normal(0.0, MEDIAN_ERROR * spread, (paths, count))
        )
        for count in counts
    )
    return sum(regressed(a, b, limit) for a, b in zip(kept.tolist(), new.tolist(), strict=True)) / paths


def main() -> None:
    """Prints a Markdown table of the false alarms, of both spreads the larger."""
    heads = [f"{n} and {m}, beyond {limit:.0%}" for n, m in COUNTS for limit in LIMITS]
    print(f"| processes differ by | {' | '.join(heads)} |")
    print(f"| --- |{' --- |' * len(heads)}")
    for kind in FACTORS:
        shares = [
            max(false_alarms(kind, counts, limit, spread) for spread in SPREADS)
            for counts in COUNTS
            for limit in LIMITS
        ]
        print(f"| {kind} | {' | '.join(f'{each:.2%}' for each in shares)} |")


if __name__ == "__main__":
    main()
