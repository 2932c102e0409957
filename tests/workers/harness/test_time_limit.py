"""Work that takes too long is ended."""

import threading
import time

import pytest

from workers.harness.time_limit import TookTooLong, no_longer_than


def test_work_that_takes_too_long_is_ended_by_a_sentence():
    start = time.monotonic()
    with pytest.raises(TookTooLong, match="building was ended after 0 s"), no_longer_than(0.1, "building"):
        time.sleep(600)
    assert time.monotonic() - start < 120


def test_nothing_follows_work_that_was_in_time():
    with no_longer_than(1, "building"):
        pass
    time.sleep(1.5)


def test_another_thread_has_no_limit():
    done = []

    def work():
        with no_longer_than(0.05, "building"):
            time.sleep(0.2)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
