"""Lists of requests: the same for every server, and as long as asked for."""

import itertools
import json
import statistics

from kernels.load.lists import Lengths, RequestList

UNEQUAL = Lengths(128, 64, 0.8, 4)


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
    assert [len(body["prompt"]) for body in bodies] == [each.prompt_tokens for each in found.planned]
    assert all(body["ignore_eos"] and max(body["prompt"]) < 1000 for body in bodies)
    assert sum("return_token_ids" in body for body in bodies) == 3
