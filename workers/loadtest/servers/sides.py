"""What is put under load: this workbench's server, and runners in batches."""

import heapq
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from kernels import runners
from kernels.load.connection import TIMED_OUT, Address
from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.generator import LoadDuration, LoadTrace
from kernels.load.planned import PlannedRequest
from kernels.measure.cpu_threads import usable_cores
from kernels.model.inputs import random_input
from kernels.plan import Plan
from kernels.runners import Runner
from kernels.server.execution.served_plans import PASSES, server_exclusions
from kernels.server.processes.handoff_server import NAME, HandoffServer, ServerDeclined
from kernels.server.processes.web_servers import processes_here
from kernels.server.spec import Spec
from workers.cost.pricing import hourly_price
from workers.documents.load import LimitResult, LoadCurve, LoadedServer
from workers.documents.recording import longest
from workers.documents.stages import StageInput
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.harness.context import Context
from workers.loadtest.highest_load import LoadGrid
from workers.loadtest.load_test import LoadTest, run_load
from workers.loadtest.planned import requests
from workers.loadtest.sending import LoadTarget
from workers.loadtest.servers import judging
from workers.loadtest.servers.curve import CurveSearch, Loading
from workers.loadtest.servers.judging import ASKED_OF
from workers.measuring.served_model import device_of, load_baseline, planned_runner
from workers.wording.load_search import batches_words, curve_of, server_words

START_SECONDS = 60.0
"""The server may take as long to start, even where the stage has less time left."""
OF_THE_SERVER = ("kernels", "megakernel")
"""The runners whose plans the server runs. Models of other plans it serves with the library's kernels instead."""
EXCLUDED = f"the workload excludes {PASSES}, of which the server's passes are made"
LOOPBACK = Address("localhost", 80, False, "/v1")
ONE_CORE = "On a CPU it leaves one core to the load generator, and so does the other side."
IN_PROCESS = "No HTTP and no tokenizer stand between users and runner, as they do for a server: that is in its favour."


class Sides:
    """Measures servers, and runners in batches, one after the other, by the same users and objectives."""

    def __init__(self, document: StageInput, context: Context, objectives: list[Objective], hardware: str) -> None:
        self.document, self.context, self._objectives = document, context, objectives
        self.hardware, self.device = hardware, device_of(document.gpu_class)
        self._threads = max(1, usable_cores() - 1)
        assert document.workload.load is not None
        self.most = document.workload.load.most_users
        self.answers: dict[str, list[list[judging.Answer]]] = {}
        """The answers that are to be judged, by the side's name and the load."""

    def server(self, plan: Plan, until: float) -> LoadCurve:
        """This workbench's server, with the plan where it takes it. Raises ServerDeclined or NotMeasurable."""
        if PASSES in self.document.workload.constraints.exclude:
            raise ServerDeclined(EXCLUDED)
        caveats, file = list[str](), self.context.artifacts / "plan.json"
        file.write_text(plan.model_dump_json())
        for plan_file in (str(file), None):
            try:
                with self._serve_command(plan, plan_file) as (server, device):
                    gpus = plan.tensor_parallel_size
                    limit = self.over_http("after", replace(LOOPBACK, handoff_fd=server.handoff_fd), until, gpus)
                    curve = self._of_server(plan if plan_file else None, device, caveats, gpus)
                    chosen = server.serving if plan_file else {}
                    return curve_of(curve.model_copy(update={"settings": chosen}), limit)
            except ServerDeclined as why:
                if plan_file is None or not str(why).startswith("--plan: "):
                    raise
                caveats.append(f"The server does not take the plan: {str(why).removeprefix('--plan: ').rstrip('.')}.")
        raise AssertionError("the loop returns or raises")

    def spec(self, plan: str | None = None, dtype: str | None = None, size: int = 1) -> Spec:
        """What this workbench's server is asked for, over `size` GPUs; with the file of a plan."""
        excluded = tuple(server_exclusions(self.document.workload.constraints.exclude))
        folder, seed = str(self.context.model_dir), self.document.model.seed
        return Spec(
            folder, plan, self.device, dtype, seed,
            max_num_seqs=self.most, exclude=excluded, tensor_parallel_size=size, capture_all=True,
        )  # fmt: skip

    @contextmanager
    def _serve_command(self, plan: Plan, file: str | None) -> Iterator[tuple[HandoffServer, str]]:
        self.context.report_progress(0.1, "starting the server")
        threads = {"OMP_NUM_THREADS": str(self._threads)} if self.device == "cpu" else {}
        with HandoffServer(self.spec(file, plan.dtype, plan.tensor_parallel_size), os.environ | threads) as server:
            begun = time.monotonic()
            ready = server.wait_ready(max(START_SECONDS, self.context.seconds_left))
            self.context.starts_and_loads += time.monotonic() - begun
            yield server, ready

    def over_http(self, name: str, address: Address, until: float, gpus: int = 1) -> LimitResult:
        """The curve of a server that is ready. Raises NotMeasurable."""
        sampling = self.document.workload.traffic.sampling
        ids_every = 0 if sampling and sampling.temperature else judging.ASKED_OF
        target = LoadTarget(address, NAME, most_processes=1 if self.device == "cpu" else None, ids_every=ids_every)
        return self._measure(name, until, self._test(target, gpus), lambda test: run_load(test)[1], gpus)

    def _of_server(self, plan: Plan | None, device: str, caveats: list[str], gpus: int) -> LoadedServer:
        if excluded := server_exclusions(self.document.workload.constraints.exclude):
            caveats.append(f"It does without {' and '.join(excluded)}, which the workload excludes.")
        parts = "the plan's kernels" if plan and plan.runner in OF_THE_SERVER else "the library's kernels"
        return LoadedServer(
            kind="server",
            label=f"this workbench's server, {parts}",
            sentence=server_words(parts, processes_here(self.spec())),
            hardware=device,
            gpu_class=self.document.gpu_class,
            gpus=gpus,
            caveats=[*caveats, *([ONE_CORE] if self.device == "cpu" else [])],
        )

    def batches(self, name: str, runner_name: str, plan: Plan | None, until: float) -> LoadCurve:
        """A runner, that of `plan` where there is one, in batches formed as requests arrive."""
        gpus = plan.tensor_parallel_size if plan else self.document.tensor_parallel_size
        self.context.report_progress(0.1, f"loading the model for {name}")
        if self.device == "cpu":
            torch.set_num_threads(self._threads)
        runner = (
            planned_runner(self.document, self.context, plan)
            if plan
            else runners.runner(runner_name, load_baseline(self.document, self.context))
        )
        try:
            limit = self._in_batches(runner, name, until, gpus)
        finally:
            runner.close()
            runners.free()
        return curve_of(self._of_batches(runner_name, gpus), limit)

    def _in_batches(self, runner: Runner, name: str, until: float, gpus: int) -> LimitResult:
        def loading(here: LoadTest) -> LoadTrace:
            lengths = longest(here.traffic, self.document.recording)
            runner.prepare(here.traffic.concurrency, *lengths)
            return BatchLoop(runner, here.traffic, here.limits, lengths, here.folder).run()

        return self._measure(name, until, self._test(LoadTarget(LOOPBACK, NAME), gpus), loading, gpus)

    def _of_batches(self, runner_name: str, gpus: int) -> LoadedServer:
        called = {"eager": "generate of transformers", "compiled": "the model under torch.compile"}
        what = called.get(runner_name, f"the {runner_name} runner")
        sampled = self.document.workload.traffic.sampling
        greedy = ["It takes the likeliest token; the traffic's sampling is the server's alone."] if sampled else []
        return LoadedServer(
            kind="batches",
            label=f"{what} in batches",
            sentence=batches_words(what),
            hardware=self.hardware,
            gpu_class=self.document.gpu_class,
            gpus=gpus,
            caveats=[IN_PROCESS, *greedy, *([ONE_CORE] if self.device == "cpu" else [])],
        )

    def _test(self, target: LoadTarget, gpus: int = 1) -> LoadTest:
        usd = hourly_price(self.document.prices, self.document.gpu_class, gpus)
        traffic, folder = self.document.workload.traffic, self.context.recordings
        return LoadTest(target, traffic, self._objectives, LoadDuration(3.0), folder, usd)

    def _measure(self, name: str, until: float, test: LoadTest, loading: Loading, gpus: int = 1) -> LimitResult:
        recorded = self.document.recording
        traffic = self.document.workload.traffic.model_copy(update={"batch": 1})
        grid = LoadGrid(traffic, self.most, recorded.seconds if recorded else math.inf)
        curve = CurveSearch(self.context, self.device, grid, until, gpus)
        self.answers[name] = curve.answers
        return curve.measure(name, test, loading)


WaitingRequest = tuple[int, int, PlannedRequest]
"""When a request is due, its number, and what it asks for."""


class BatchLoop:
    """The requests of one load on one runner, without a server. Use it once.

    Users of a closed loop, and the requests of an open one, wait in line. When the runner is free it takes those who
    have waited longest, at most `traffic.concurrency`, as one batch: as long as the longest prompt and the longest
    answer among them, as static batching is. Each user has the answer, cut to its own length, at the times at which
    the runner gave it. There is neither HTTP nor a tokenizer between them.
    """

    def __init__(
        self, runner: Runner, traffic: Traffic, limits: LoadDuration, longest: tuple[int, int], folder: Path
    ) -> None:
        """`longest`: the longest prompt and answer, in tokens; `folder` is where recordings lie."""
        self._runner, self._traffic, self._limits, self._longest = runner, traffic, limits, longest
        self._plan: Iterator[PlannedRequest] = requests(traffic, folder)
        self._draws = torch.Generator().manual_seed(traffic.seed)
        self._fixed = runner.name != "eager"  # others are built for one shape

    def run(self) -> LoadTrace:
        """Serves until the time is up, and the batch that was begun before."""
        start = time.monotonic_ns()
        end = start + round(self._limits.seconds * 1e9)
        sent = LoadTrace(start + round(self._limits.warm_up_s * 1e9))
        due: list[WaitingRequest] = []
        for _ in range(1 if self._traffic.open_loop else self._traffic.concurrency):
            self._add_next(due, start, start)
        while due and due[0][0] < end:
            time.sleep(max(0, due[0][0] - time.monotonic_ns()) / 1e9)
            waiting, lost = self._next_batch(due, start, end)
            served = self._serve(waiting) if waiting else []
            sent.exchanges += served + lost
            if not self._traffic.open_loop:
                for exchange in served:
                    self._add_next(due, exchange.end_ns, start)
        if due:  # the next one is due behind the end; until then the load goes on with nothing to serve
            time.sleep(max(0, end - time.monotonic_ns()) / 1e9)
        sent.stopped_ns = min(end, time.monotonic_ns())
        sent.exchanges.sort(key=lambda exchange: exchange.intended_ns)
        return sent

    def _next_batch(
        self, due: list[WaitingRequest], start_ns: int, end_ns: int
    ) -> tuple[list[WaitingRequest], list[Exchange]]:
        """The next batch, taken out of `due`, and the requests of an open loop that waited too long to be in it."""
        now_ns, open_loop = time.monotonic_ns(), self._traffic.open_loop
        waiting, lost = list[WaitingRequest](), list[Exchange]()
        while due and due[0][0] <= min(now_ns, end_ns - 1) and len(waiting) < self._traffic.concurrency:
            at, _, planned = next_due = heapq.heappop(due)
            if open_loop:
                self._add_next(due, start_ns, start_ns)
            if open_loop and self._late(at) < now_ns:
                lost.append(self._timed_out(Exchange(planned, at, at, at), at))
            else:
                waiting.append(next_due)
        return waiting, lost

    def _add_next(self, due: list[WaitingRequest], free_ns: int, start_ns: int) -> None:
        """The next request, if any: of an open loop at its own time after the start, else when a user has paused."""
        planned = next(self._plan, None)
        if planned is None:
            return
        at = free_ns + round(planned.think_s * 1e9) if planned.at_s is None else start_ns + round(planned.at_s * 1e9)
        heapq.heappush(due, (at, planned.index, planned))

    def _serve(self, waiting: list[WaitingRequest]) -> list[Exchange]:
        batch = self._traffic.concurrency if self._fixed else len(waiting)
        lengths = [(planned.prompt_tokens, planned.output_tokens) for _, _, planned in waiting]
        prompt, output = self._longest if self._fixed else map(max, zip(*lengths, strict=True))
        ids = random_input(self._runner.model, batch, prompt, self._draws)
        begun = time.monotonic_ns()
        generation = self._runner.generate(ids, output)
        exchanges = [self._exchange(due, planned, begun, generation.times_ns) for due, _, planned in waiting]
        for row, exchange in enumerate(exchanges):
            if exchange.planned.index % ASKED_OF == 0:
                exchange.prompt_ids, exchange.ids = ids[row].tolist(), generation.tokens[row][: exchange.tokens]
        return exchanges

    def _exchange(self, due: int, planned: PlannedRequest, begun: int, times: list[int]) -> Exchange:
        """The exchange of one user of the batch. The generator has no lag: the request begins when it is due."""
        token_times = times[: min(planned.output_tokens, planned.cancel_after or planned.output_tokens)]
        first, last, counts = token_times[0], token_times[-1], [True] * len(token_times)
        exchange = Exchange(planned, due, due, begun, first, last, token_times, counts)
        exchange.counted_prompt, exchange.counted_output = planned.prompt_tokens, len(token_times)
        if last > self._late(due):
            return self._timed_out(exchange, due)
        exchange.ended = CANCELLED if len(token_times) < planned.output_tokens else "length"
        return exchange

    def _late(self, due: int) -> int:
        return due + round(self._traffic.time_out_s * 1e9)

    def _timed_out(self, exchange: Exchange, due: int) -> Exchange:
        sentence = f"A request had not ended {self._traffic.time_out_s:g} s after it was due."
        exchange.fail(TIMED_OUT, sentence, self._late(due))
        exchange.end_ns = self._late(due)
        return exchange
