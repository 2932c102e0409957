"""A step's failure costs that step alone, and a second call goes on where the first one stopped."""

import os
import subprocess
import sys
import time

from kernels.bring_up.steps import BringUpStep, StepOutcome, outcome, run_steps, stopped_steps
from tests.waiting import wait_for


def answer(value):
    return value


def raise_error():
    raise ValueError("no such form")


def die():
    os._exit(7)


def sleep(long):
    time.sleep(long)


def hang(folder):
    (folder / "began").touch()
    time.sleep(600)


def step(name, work, seconds=600.0, **arguments):
    return BringUpStep(f"one-{name}", f"the step {name}", work, arguments, seconds)


def test_steps_that_fail_die_or_hang_cost_themselves_alone(tmp_path):
    steps = [
        step("a", answer, value=[1]), step("b", raise_error), step("c", die), step("d", sleep, 0.2, long=600),
        step("e", answer, value={"two": 2}),
    ]  # fmt: skip
    messages: list[str] = []
    assert run_steps(tmp_path, steps, time.monotonic() + 900, messages.append) == []
    assert [outcome(tmp_path, item.name).found for item in steps] == [[1], None, None, None, {"two": 2}]
    assert stopped_steps(tmp_path) == {
        "the step b": "ValueError: no such form",
        "the step c": "Its process ended with code 7.",
        "the step d": "It took more than 0 s.",
    }
    assert len(messages) == 5


def test_a_second_call_does_only_what_is_left(tmp_path):
    steps = [step("a", answer, value=1), step("b", answer, value=2)]
    now = time.monotonic()
    assert run_steps(tmp_path, steps, now - 1, print) == ["the step a", "the step b"]
    assert outcome(tmp_path, "one-a") is None
    run_steps(tmp_path, steps[:1], now + 900, print)
    kept = (tmp_path / "one-a.json").stat().st_mtime_ns
    messages: list[str] = []
    assert run_steps(tmp_path, steps, time.monotonic() + 900, messages.append) == []
    assert (tmp_path / "one-a.json").stat().st_mtime_ns == kept
    assert outcome(tmp_path, "one-b") == StepOutcome(2)
    assert len(messages) == 1


def test_a_step_that_the_end_cuts_off_is_left_for_the_next_call(tmp_path):
    steps = [step("a", sleep, long=600)]
    assert run_steps(tmp_path, steps, time.monotonic() + 1, print) == ["the step a"]
    assert outcome(tmp_path, "one-a") is None


def test_a_call_that_is_killed_ends_its_steps_and_leaves_the_rest_to_the_next(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.kernels.bring_up.test_steps import *\n"
        "folder = Path(sys.argv[1]); steps = [step('a', answer, value=1), step('b', hang, folder=folder)]\n"
        "run_steps(folder, steps, time.monotonic() + 900, print)"
    )
    first = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    wait_for((tmp_path / "began").exists, 300, "the second step")
    first.kill()
    first.communicate(timeout=300)  # ends with the last process that has the pipe, the step's as well
    messages: list[str] = []
    steps = [step("a", die), step("b", answer, value=2)]
    assert run_steps(tmp_path, steps, time.monotonic() + 900, messages.append) == []
    assert [outcome(tmp_path, item.name) for item in steps] == [StepOutcome(1), StepOutcome(2)]
    assert len(messages) == 1
