"""How often times that do not drift are said to drift, simulated.

    python -m benchmarks.simulations.drift_errors

The times of `simulated_requests` have no trend, so what `workers.stats.intervals.drift` finds is a false alarm. They
vary by 20 %, so chance alone nearly always makes the halves differ by more than its MIN_DRIFT.
"""

import numpy as np

from benchmarks.simulations.simulated_requests import PROCESSES
from workers.stats.intervals import drift

TIMES = ("independent", "AR(1), 0.61", "AR(1), 0.82")
REQUESTS = (10, 20, 40, 100)
PATHS = 20_000


def false_alarms(name: str, requests: int, paths: int = PATHS) -> float:
    """The share of simulated measurements of so many requests that are said to drift."""
    draws = np.random.default_rng([requests, *name.encode()])
    times = np.exp(PROCESSES[name](draws, (paths, requests), 0.5))
    return sum(drift(sample) is not None for sample in times) / paths  # type: ignore[arg-type]


def main() -> None:
    print(f"| times of requests | {' | '.join(f'{count} requests' for count in REQUESTS)} |")
    print("| --- " * (1 + len(REQUESTS)) + "|")
    for name in TIMES:
        print(f"| {name} | {' | '.join(f'{false_alarms(name, count):.2%}' for count in REQUESTS)} |", flush=True)


if __name__ == "__main__":
    main()
