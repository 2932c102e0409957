"""What is put under load: this workbench's server, and runners in batches."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from kernels import runners
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration, LoadTrace
from kernels.measure.cpu_threads import usable_cores
from kernels.plan import Plan
from kernels.runners import Runner
from kernels.server.execution.excluded import PASSES, of_server
from kernels.server.processes.handed import NAME, HandedServer, ServerDeclined
from kernels.server.processes.web_servers import processes_here
from kernels.server.spec import Spec
from workers.cost.pricing import hourly_price
from workers.documents.load import LimitResult, LoadCurve, LoadedServer
from workers.documents.recording import longest
from workers.documents.stages import StageInput
from workers.documents.workload import Objective
from workers.harness.context import Context
from workers.loadtest.ladder import Ladder
from workers.loadtest.measuring import LoadTest, sent_under
from workers.loadtest.sending import LoadTarget
from workers.loadtest.servers import judging
from workers.loadtest.servers.batches import BatchLoop
from workers.loadtest.servers.curve import CurveSearch, Loading
from workers.measuring.served_model import device_of, load_today, planned
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
    """Measures one side after the other, on the same device, with the same users and objectives."""

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
                with self._served(plan, plan_file) as (server, device):
                    gpus = plan.tensor_parallel_size
                    limit = self.over_http("after", replace(LOOPBACK, handing=server.handing), until, gpus)
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
        excluded = tuple(of_server(self.document.workload.constraints.exclude))
        folder, seed = str(self.context.model_dir), self.document.model.seed
        return Spec(
            folder, plan, self.device, dtype, seed,
            max_num_seqs=self.most, exclude=excluded, tensor_parallel_size=size, capture_all=True,
        )  # fmt: skip

    @contextmanager
    def _served(self, plan: Plan, file: str | None) -> Iterator[tuple[HandedServer, str]]:
        self.context.say(0.1, "starting the server")
        threads = {"OMP_NUM_THREADS": str(self._threads)} if self.device == "cpu" else {}
        with HandedServer(self.spec(file, plan.dtype, plan.tensor_parallel_size), os.environ | threads) as server:
            yield server, server.wait_ready(max(START_SECONDS, self.context.seconds_left))

    def over_http(self, name: str, address: Address, until: float, gpus: int = 1) -> LimitResult:
        """The curve of a server that is ready. Raises NotMeasurable."""
        sampling = self.document.workload.traffic.sampling
        ids_every = 0 if sampling and sampling.temperature else judging.ASKED_OF
        target = LoadTarget(address, NAME, most_processes=1 if self.device == "cpu" else None, ids_every=ids_every)
        return self._measured(name, until, self._test(target, gpus), lambda test: sent_under(test)[1], gpus)

    def _of_server(self, plan: Plan | None, device: str, caveats: list[str], gpus: int) -> LoadedServer:
        if excluded := of_server(self.document.workload.constraints.exclude):
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
        self.context.say(0.1, f"loading the model for {name}")
        if self.device == "cpu":
            torch.set_num_threads(self._threads)
        runner = (
            planned(self.document, self.context, plan)
            if plan
            else runners.runner(runner_name, load_today(self.document, self.context))
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

        return self._measured(name, until, self._test(LoadTarget(LOOPBACK, NAME), gpus), loading, gpus)

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

    def _measured(self, name: str, until: float, test: LoadTest, loading: Loading, gpus: int = 1) -> LimitResult:
        recorded = self.document.recording
        traffic = self.document.workload.traffic.model_copy(update={"batch": 1})
        ladder = Ladder(traffic, self.most, recorded.seconds if recorded else math.inf)
        curve = CurveSearch(self.context, self.device, ladder, until, gpus)
        self.answers[name] = curve.answers
        return curve.measure(name, test, loading)
