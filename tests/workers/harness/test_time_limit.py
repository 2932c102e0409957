"""Work that takes too long is ended."""

import signal
import threading
import time

import pytest
import torch.fx

from workers.planning.trials import TimeLimitExceeded, no_longer_than


def test_work_that_takes_too_long_is_ended_by_a_sentence_also_where_it_makes_another_exception_of_it():
    start = time.monotonic()
    with pytest.raises(TimeLimitExceeded, match="building was ended after 0 s"), no_longer_than(0.1, "building"):
        time.sleep(600)
    assert time.monotonic() - start < 120

    def compile_in_vain() -> None:
        try:
            time.sleep(600)
        except TimeLimitExceeded as error:
            raise RuntimeError(f"TimeLimitExceeded: {error}") from error

    with pytest.raises(TimeLimitExceeded, match=r"^building was ended after 0 s$"), no_longer_than(0.1, "building"):
        compile_in_vain()

    graph = torch.fx.Graph()
    graph.call_function(time.sleep, (600,))
    lowering = torch.fx.Interpreter(torch.fx.GraphModule({}, graph))
    with pytest.raises(TimeLimitExceeded, match=r"^building was ended after 0 s$"), no_longer_than(0.1, "building"):
        lowering.run()
    with pytest.raises(RuntimeError, match="its own"), no_longer_than(60, "building"):
        raise RuntimeError("its own")


def test_nothing_follows_work_that_was_in_time_and_another_thread_has_no_limit():
    before = signal.getsignal(signal.SIGALRM)
    with no_longer_than(60, "building"):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before
    done = []

    def work():
        with no_longer_than(0.05, "building"):
            time.sleep(0.2)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
