"""The scheduler under random arrivals, lengths, cancellations and full caches, on a simulated device."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.server.execution.inputs import Sequences
from kernels.server.scheduler.batching import Scheduler, SchedulerLimits
from kernels.server.scheduler.pages import Pages, hash_block
from kernels.server.scheduler.requests import Request, Step
from tests.kernels.server.simulated import Device, alone, check_pages, held

LIMITS = st.builds(
    lambda pages, size, running, context, blocks, rows, chunks, mixed, shared: SchedulerLimits(
        pages, size, running, context, blocks * rows, rows, chunks, mixed, shared and min(shared, blocks) * rows
    ),
    pages=st.integers(2, 14),
    size=st.integers(1, 5),
    running=st.integers(1, 6),
    context=st.integers(4, 40),
    blocks=st.integers(1, 6),
    rows=st.integers(1, 4),
    chunks=st.integers(1, 4),
    mixed=st.sampled_from([(), (0,), (0, 2), (0, 1, 2, 4)]),
    shared=st.none() | st.integers(1, 6),
)
PROMPTS = st.one_of(
    st.lists(st.integers(0, 49), min_size=1, max_size=20),
    st.integers(1, 20).map(lambda length: list(range(length))),  # beginnings that many have in common
)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 30), PROMPTS, st.integers(1, 12), st.sets(st.integers(0, 49), max_size=3)),
    min_size=1,
    max_size=14,
)
CANCELLED = st.dictionaries(st.integers(0, 13), st.integers(0, 60), max_size=4)
"""The number of a request, and the round in which it is cancelled."""


def serve(
    limits: SchedulerLimits,
    arrivals: list[tuple[int, Request]],
    cancelled: dict[int, int],
    behind: int = 1,
    few: int = 0,
) -> dict[str, list[int]]:
    """The tokens that each request was answered with. The host reads ids `behind` steps late."""
    scheduler, device = Scheduler(limits), Device(limits)
    sequences = Sequences(limits.max_num_seqs, limits.pages, limits.page_size)
    answers: dict[str, list[int]] = {request.name: [] for _, request in arrivals}
    pending: list[tuple[Step, list[list[int]]]] = []
    turn = idle = 0
    while any(request.state != "finished" for _, request in arrivals):
        for number, (at, request) in enumerate(arrivals):
            if at == turn:
                scheduler.add(request)
            if cancelled.get(number) == turn and at <= turn:
                scheduler.cancel(request)
        step = scheduler.next_step()
        if step is not None and len(step.parts) <= few and all(part.start < 24 for part in step.parts):
            step = scheduler.multi_step(step, 4, 24)
        check_pages(scheduler)
        if step is not None:
            for item in (part.request for part in step.parts):
                assert sequences.tables[sequences.update(item), : len(item.pages)].tolist() == item.pages
            pending.append((step, device.run(step)))
        late = len(pending) > behind or (step is None and bool(pending))
        for token in scheduler.commit(*pending.pop(0)) if late else []:
            assert token.token is not None
            answers[token.request.name].append(token.token)
        check_pages(scheduler)
        busy = step is not None or late or any(at >= turn for at, _ in arrivals)
        idle = 0 if busy else idle + 1
        assert idle < 3, "requests wait and nothing is computed"
        turn += 1
    for left in pending:
        assert scheduler.commit(*left) == []
    assert not scheduler.running
    assert not scheduler.waiting
    assert scheduler.pages.num_free == limits.pages - 1
    return answers


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limits=LIMITS, requests=REQUESTS, cancelled=CANCELLED, behind=st.integers(0, 2), few=st.integers(0, 4))
def test_every_answer_is_that_of_the_request_alone(limits, requests, cancelled, behind, few) -> None:
    arrivals = [
        (at, Request(str(number), list(prompt), tokens, stop_ids=frozenset(stop)))
        for number, (at, prompt, tokens, stop) in enumerate(requests)
        if len(prompt) + tokens <= limits.max_seq_len
    ]
    answers = serve(limits, arrivals, cancelled, behind, few)
    for _, request in arrivals:
        assert not held(request)
        prompt = request.ids[: request.prompt_length]
        expected, result = alone(prompt, request.max_tokens, request.stop_ids), answers[request.name]
        if request.finish_reason == "cancelled":
            assert result == expected[: len(result)]
        else:
            assert result == expected
            assert request.finish_reason == ("stop" if result[-1] in request.stop_ids else "length")


def test_preemption_takes_the_request_that_came_last() -> None:
    scheduler = Scheduler(SchedulerLimits(5, 2, 2, 8, 8))
    device = Device(scheduler.limits)
    first, second = Request("a", [1, 2, 3], 5), Request("b", [4, 5, 6], 5)
    scheduler.add(first)
    scheduler.add(second)
    while not scheduler.preempted:
        step = scheduler.next_step()
        assert step is not None
        scheduler.commit(step, device.run(step))
    assert (first.state, second.state) == ("running", "waiting")
    assert not held(second)


def test_a_common_beginning_is_computed_once() -> None:
    scheduler = Scheduler(SchedulerLimits(20, 4, 4, 40, 40))
    device = Device(scheduler.limits)
    first, second = Request("a", list(range(12)), 2), Request("b", [*range(9), 40, 41, 42], 2)
    scheduler.add(first)
    step = scheduler.next_step()
    assert step is not None
    scheduler.commit(step, device.run(step))
    scheduler.add(second)
    step = scheduler.next_step()
    assert [(part.start, part.tokens) for part in step.prefill_chunks] == [(8, 4)]
    assert second.num_cached_tokens == 8
    assert second.pages[:2] == first.pages[:2]


def test_tokens_of_others_are_answered_while_a_long_prompt_is_read() -> None:
    scheduler = Scheduler(SchedulerLimits(40, 4, 4, 100, 12, 4))
    device = Device(scheduler.limits)
    short, long = Request("short", [1, 2, 3], 20), Request("long", list(range(45)), 1)
    scheduler.add(short)
    scheduler.commit(step := scheduler.next_step(), device.run(step))
    scheduler.add(long)
    for _ in range(5):
        step = scheduler.next_step()
        assert [(part.request.name, part.tokens) for part in step.parts] == [("short", 1), ("long", 8)]
        scheduler.commit(step, device.run(step))


def answering(scheduler: Scheduler, count: int) -> None:
    """Brings so many requests, of one token each, to where they are answered."""
    for number in range(count):
        scheduler.add(Request(f"single {number}", [number], 20))
    scheduler.next_step()


def parts_of(step: Step | None) -> tuple[list[str], list[tuple[str, int]]]:
    """The requests of the step's decodes, and of its chunks with their tokens."""
    return [part.request.name for part in step.decodes], [
        (part.request.name, part.tokens) for part in step.prefill_chunks
    ]


@pytest.mark.parametrize(("decodes", "room"), [(0, 32), (1, 28), (2, 28), (3, 20), (12, 20), (40, 16)])
def test_single_tokens_leave_chunks_less_room(decodes: int, room: int) -> None:
    """All rows of a pass count: those of 3 decodes, padded to 12, leave 20 of 32 tokens; half of a step is chunks'."""
    mixed = (0, 2, 12) if decodes < 13 else (0, 2)
    scheduler = Scheduler(SchedulerLimits(999, 4, 41, 100, 32, 4, mixed=mixed))
    answering(scheduler, decodes)
    scheduler.add(Request("long", [1] * 60, 1))
    names, chunks = parts_of(scheduler.next_step())
    assert (len(names), chunks) == (decodes, [("long", room)])


def test_a_single_for_which_chunks_leave_no_row_comes_with_the_next_step() -> None:
    scheduler = Scheduler(SchedulerLimits(99, 4, 12, 100, 32, 4, mixed=(0, 2)))
    answering(scheduler, 2)
    for request in (Request("prompt", [1] * 24, 3), Request("third single", [1], 2)):
        scheduler.add(request)
    assert parts_of(scheduler.next_step()) == (["single 0", "single 1"], [("prompt", 24)])
    assert parts_of(scheduler.next_step()) == (["single 0", "single 1", "prompt", "third single"], [])


def test_only_a_request_that_has_not_begun_is_given_up_when_it_waited_too_long() -> None:
    scheduler = Scheduler(SchedulerLimits(4, 4, 1, 12, 8))
    first, second = Request("a", [1], 4), Request("b", [2], 4, deadline=10.0)
    scheduler.add(first)
    scheduler.next_step()
    scheduler.add(second)
    assert scheduler.expire(9.0) == []
    assert [(item.request, item.finish_reason) for item in scheduler.expire(11.0)] == [(second, "deadline")]
    assert not scheduler.waiting
    scheduler = Scheduler(SchedulerLimits(9, 4, 2, 32, 2))
    first, second = Request("first", [1] * 4, 20), Request("second", [2] * 20, 4, deadline=10.0)
    for request in (first, second):
        scheduler.add(request)
    while not scheduler.preempted:
        step = scheduler.next_step()
        scheduler.commit(step, [[7]] * len(step.parts))
    assert (second.state, second.num_scheduled_outputs, first.state) == ("waiting", 0, "running")
    assert scheduler.expire(11.0) == []


@pytest.mark.parametrize(("prompt", "tokens"), [(10, 3), (0, 4), (4, 0)])
def test_what_can_never_be_served_is_refused_in_a_sentence(prompt: int, tokens: int) -> None:
    scheduler = Scheduler(SchedulerLimits(4, 4, 1, 100, 8))
    assert scheduler.refusal(prompt, tokens)
    with pytest.raises(ValueError, match=str(prompt)):
        scheduler.add(Request("a", [1] * prompt, tokens))
    assert not scheduler.waiting


def test_a_remembered_page_is_taken_when_no_other_is_free() -> None:
    pages = Pages(3, 2)
    first = pages.allocate()
    name = hash_block(b"\0" * 32, [1, 2])
    pages.cache_full_block(first, name)
    pages.free([first])
    assert pages.prefix([name]) == [first]
    assert {pages.allocate(), pages.allocate()} == {1, 2}
    assert pages.prefix([name]) == []
    with pytest.raises(IndexError):
        pages.allocate()


def test_a_step_makes_no_more_tokens_than_answers_pages_and_length_allow() -> None:
    scheduler = Scheduler(SchedulerLimits(6, 4, 2, 20, 8))
    device = Device(scheduler.limits)
    first, second = Request("a", [1, 2], 14), Request("b", [3], 4)
    counts = []
    for request in (first, second):
        scheduler.add(request)
    while (step := scheduler.next_step()) is not None:
        step = scheduler.multi_step(step, 4, 14)
        counts.append(step.count)
        scheduler.commit(step, device.run(step))
    assert counts == [1, 3, 4, 4, 1, 1]
    assert first.ids[2:] == alone([1, 2], 14, frozenset())
    assert second.ids[1:] == alone([3], 4, frozenset())
