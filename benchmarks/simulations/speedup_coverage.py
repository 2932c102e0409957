"""How often a speedup's interval contains the truth, simulated.

    python -m benchmarks.simulations.speedup_coverage [within | stopping | turns]

Each process draws a factor on the time before, and a small error of its median. The truth is the geometric mean of the
ratio over all processes. The interval is the one that verify states (`workers.stats.intervals.ratio_across_processes`).

*Stopping* is verify's rule: four processes where the plan is clearly faster in each of them, six otherwise. A process
serves two pairs, so its median ratio errs by more.

In *turns* each side has a process of its own, which draws a factor, and times drift by some share from turn to turn.
The order of the sides is verify's (A B B A A B) or, to compare, A B A B A B.

*Within* one process both sides draw the times of requests alike, so the truth is a ratio of 1. The requests of a side
are independent of each other, but for those of an AR(1) process. The interval is the paired bootstrap's
(`workers.stats.intervals.paired_ratio`).
"""

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.simulations.simulated_requests import SPREAD as SPREAD_WITHIN
from benchmarks.simulations.simulated_requests import standard
from workers.planning.confirmation import CLEARLY_FASTER
from workers.stats.intervals import paired_ratio, ratio_across_processes

SEEN_MS = (494.0, 497.0, 649.0, 717.0)
"""Medians of one model before, in four processes on H200s: the largest spread that was seen."""
SPREAD = float(np.std(np.log(SEEN_MS), ddof=1))
MEDIAN_ERROR = 0.01
"""Standard deviation of the logarithm of a process's median ratio, beside the process's factor."""
MEDIAN_ERROR_OF_TWO = 0.11
"""The same for two pairs on a host whose requests vary by 15 %."""
SPREAD_OF_TURNS = 0.02
"""Standard deviation of the logarithm of a turn's median."""
DRIFTS = (0.0, 0.002, 0.005, 0.01, 0.03)
PATHS = 20_000

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

FACTORS: dict[str, Draw] = {
    "log-normal": lambda generator, shape: generator.normal(0.0, SPREAD, shape),
    "log-uniform": lambda generator, shape: generator.uniform(-1.0, 1.0, shape) * SPREAD * 3**0.5,
    "two kinds of processes, equally many": lambda generator, shape: generator.choice([-SPREAD, SPREAD], shape),
    "the four that were seen": lambda generator, shape: generator.choice(np.log(SEEN_MS), shape),
}
"""The logarithm of a process's factor, by how processes differ; each has the standard deviation SPREAD or nearly so."""
CENTRES = {"the four that were seen": float(np.mean(np.log(SEEN_MS)))}

REQUESTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "log-normal, 5 %": lambda generator, count: np.exp(generator.normal(0.0, 0.05, count)),
    "long tail": lambda generator, count: 1.0 + generator.gamma(0.5, 0.1, count),
    "four of ten a fifth slower": lambda generator, count: (
        np.where(generator.random(count) < 0.4, 1.2, 1.0) + generator.normal(0.0, 0.005, count)
    ),
    "AR(1), 0.61": lambda generator, count: np.exp(SPREAD_WITHIN * standard(generator, (1, count), 0.61)[0]),
    "AR(1), 0.82": lambda generator, count: np.exp(SPREAD_WITHIN * standard(generator, (1, count), 0.82)[0]),
}
"""Times of requests of one process, by how they differ; their scale is of no matter."""
PAIRS = (9, 10, 20, 40)
PATHS_WITHIN = 4_000


def coverage(kind: str, processes: int, paths: int = PATHS, seed: int = 1) -> float:
    """The share of simulated measurements whose interval contains the truth."""
    generator, truth = np.random.default_rng(seed), CENTRES.get(kind, 0.0)
    drawn = FACTORS[kind](generator, (paths, processes)) + generator.normal(0.0, MEDIAN_ERROR, (paths, processes))
    intervals = (ratio_across_processes([float(ratio) for ratio in row]) for row in np.exp(drawn - truth))
    return sum(interval.low <= 1.0 <= interval.high for interval in intervals) / paths


def coverage_within(kind: str, pairs: int, paths: int = PATHS_WITHIN, seed: int = 1) -> float:
    """The share of simulated measurements within one process whose interval contains the truth."""
    generator = np.random.default_rng(seed)
    sides = ([REQUESTS[kind](generator, pairs).tolist() for _ in range(2)] for _ in range(paths))
    intervals = (paired_ratio(before, after) for before, after in sides)
    return sum(interval.low <= 1.0 <= interval.high for interval in intervals) / paths


def coverage_stopping(ratio: float, paths: int = PATHS, seed: int = 1) -> tuple[float, float]:
    """The share of simulated measurements of a plan that is so many times as fast whose interval contains that ratio,
    and the share that four processes were enough for.
    """
    generator = np.random.default_rng(seed)
    errors = generator.normal(0.0, SPREAD, (paths, 6)) + generator.normal(0.0, MEDIAN_ERROR_OF_TWO, (paths, 6))
    contained = stopped = 0
    for ratios in ratio * np.exp(errors):
        clear = bool((ratios[:4] >= CLEARLY_FASTER).all())
        interval = ratio_across_processes([float(value) for value in ratios[: 4 if clear else 6]])
        contained += interval.low <= ratio <= interval.high
        stopped += clear
    return contained / paths, stopped / paths


def coverage_turns(drift: float, turns: int, balanced: bool = True, paths: int = PATHS, seed: int = 1) -> float:
    """The share of simulated measurements in so many turns of each side whose interval contains the truth, 1.

    Times rise by the share `drift` from one turn to the next; `balanced` is verify's order.
    """
    generator, pair = np.random.default_rng(seed), np.arange(turns)
    first = generator.normal(0.0, SPREAD_OF_TURNS, (2, paths, turns))
    swapped = (pair % 2) * balanced
    before, after = 2 * pair + swapped, 2 * pair + 1 - swapped
    logs = first[0] - first[1] + (before - after) * np.log1p(drift)
    intervals = (ratio_across_processes([float(ratio) for ratio in row]) for row in np.exp(logs))
    return sum(interval.low <= 1.0 <= interval.high for interval in intervals) / paths


def main() -> None:
    """Prints a Markdown table of the coverage: between processes, by verify's rule, in turns or within one."""
    if sys.argv[1:] == ["turns"]:
        print("| times rise from turn to turn by | 3 turns | 5 | 3, A B A B | 5, A B A B |")
        print("| --- | --- | --- | --- | --- |")
        for drift in DRIFTS:
            shares = [coverage_turns(drift, turns, balanced) for balanced in (True, False) for turns in (3, 5)]
            print(f"| {drift:.1%} | {' | '.join(f'{share:.1%}' for share in shares)} |")
        return
    if sys.argv[1:] == ["stopping"]:
        print("| speedup | 1.2x | 1.5x | 1.8x | 3x | 20x |")
        print("| --- | --- | --- | --- | --- | --- |")
        coverages = [coverage_stopping(ratio) for ratio in (1.2, 1.5, 1.8, 3.0, 20.0)]
        print(f"| interval contains it | {' | '.join(f'{contained:.1%}' for contained, _ in coverages)} |")
        print(f"| four processes | {' | '.join(f'{stopped:.1%}' for _, stopped in coverages)} |")
        return
    if sys.argv[1:] == ["within"]:
        print("| requests of one process differ by | 9 pairs | 10 | 20 | 40 |")
        print("| --- | --- | --- | --- | --- |")
        for kind in REQUESTS:
            print(f"| {kind} | {' | '.join(f'{coverage_within(kind, count):.1%}' for count in PAIRS)} |")
        return
    print("| processes differ by | 3 processes | 4 | 5 | 6 |")
    print("| --- | --- | --- | --- | --- |")
    for kind in FACTORS:
        print(f"| {kind} | {' | '.join(f'{coverage(kind, count):.1%}' for count in (3, 4, 5, 6))} |")


if __name__ == "__main__":
    main()
