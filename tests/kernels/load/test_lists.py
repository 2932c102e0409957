"""Lists of requests: the same for every server, and as long as asked for."""

import itertools
import json
import statistics

from kernels.load.exchange import Exchange
from kernels.load.figures import Figures, LatencyPromise
from kernels.load.generator import Sent
from kernels.load.lists import Lengths, RequestList
from kernels.load.planned import PlannedRequest
from kernels.load.sharing import merged

UNEQUAL = Lengths(128, 64, 0.8, 4)
MS = 1_000_000


def test_a_list_is_the_same_each_time():
    one, two = (RequestList.drawn(UNEQUAL, 400, 1000, 7, rate=50, judged=8) for _ in range(2))
    assert one == two
    assert one != RequestList.drawn(UNEQUAL, 400, 1000, 8, rate=50, judged=8)
    assert 100 < statistics.median(each.prompt_tokens for each in one.planned) < 160
    assert max(each.prompt_tokens for each in one.planned) <= 4 * 128
    gaps = [later.at_s - each.at_s for each, later in itertools.pairwise(one.planned)]
    assert 0.015 < statistics.mean(gaps) < 0.026


def test_a_body_asks_for_exactly_the_planned_tokens_and_ids_of_those_that_are_judged():
    found = RequestList.drawn(UNEQUAL, 20, 1000, 7, judged=3)
    bodies = [json.loads(found.body("m", each)) for each in found.planned]
    assert [len(each["prompt"]) for each in bodies] == [each.prompt_tokens for each in found.planned]
    assert all(each["ignore_eos"] and max(each["prompt"]) < 1000 for each in bodies)
    assert sum("return_token_ids" in each for each in bodies) == 3


def _answered(index: int, begun_ms: float, tokens: int, ms_each: float) -> Exchange:
    begun = round(begun_ms * MS)
    times = [begun + round((at + 1) * ms_each * MS) for at in range(tokens)]
    planned = PlannedRequest(index, None, 0.0, 4, tokens)
    found = Exchange(planned, begun, begun_ns=begun, sent_ns=begun, end_ns=times[-1], chunk_ns=times, ended="length")
    found.with_text, found.counted_output = [True] * tokens, tokens
    return found


def test_the_steady_part_and_its_rates_are_those_of_a_regular_load():
    """Two users, answers of 10 tokens in 100 ms each: 200 tokens and 20 requests a second."""
    users = [[_answered(2 * turn + user, 100 * turn, 10, 10) for turn in range(20)] for user in range(2)]
    found = Figures.of(merged([Sent(0, 0, each) for each in users]), 2)
    assert (found.since_ns, found.until_ns) == (100 * MS, 1900 * MS)
    assert abs(found.tokens_per_second - 200) < 2
    assert abs(found.requests_per_second - 20) < 1.2
    assert found.percentiles("ttft") == {"p50": 10.0, "p99": 10.0}
    assert found.percentiles("ttf_n", 64) is None
    assert found.goodput(LatencyPromise(10, 10)) > 20
    assert found.goodput(LatencyPromise(9, 10)) == found.goodput(LatencyPromise(10, 9)) == 0
    users[0][3].counted_output = 9
    assert [each.planned.index for each in Figures.of(Sent(0, 0, users[0]), 1).failed] == [6]
