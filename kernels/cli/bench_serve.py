"""`bench serve`: this library's server, and vLLM's if its Python is named, under the same requests through HTTP.

One after the other on the same GPUs, this one first and once in each of `--weights`. Each gets the same lists in the
same order: for every number of users at least 20 times as many requests, replaced as they end; then lengths that are
log-normal, by the most users at once, and as Poisson arrivals at 80 % of the requests a second that the first server
reached with them: vLLM where it runs, which then is the first. vLLM has one API server by default; `--vllm-api-servers`
measures it a second time, with several, and `--vllm-plugin` with the plug-in of `clients/vllm`, which must be installed
in its environment.
"""

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernels.cli import bench_document, serve_document
from kernels.cli.serve_document import ServeCase, ServeDocument, ServeRow
from kernels.cli.served_model import FLOOR_TOKENS, ServedModel, prepare_model
from kernels.load.connection import Address
from kernels.load.figures import LatencyObjective, LoadFigures, drop_warm_up
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.server_process import NotStarted, reserve_port, run_server
from kernels.load.sharing import DistributedLoad, max_processes, processes_for
from kernels.load.vllm_server import ServerCommand, ServerSettings, vllm, with_plan
from kernels.measure.environment import current_device
from kernels.model_files.families import stored_rows
from kernels.plan import Plan, Serving
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.proof.served_ids import answers_refusal, joined
from kernels.runners.plan_files import digested
from kernels.server.spec import WEIGHTS, catalogue_config

ROUNDS = 20
"""Requests for each user, at least."""
JUDGED = 8
"""Answers of each row that are teacher-forced."""
SIGMA = 0.8
"""The standard deviation of the logarithms of log-normal lengths."""
MAX_LENGTH_RATIO = 4
"""Lengths are cut to this multiple of the median."""
MAX_SECONDS = 600.0
"""The longest time that a list is sent for."""
SHARE_OF_CAPACITY = 0.8
"""Poisson arrivals come at this share of the requests per second that the first server reached."""
NOTE = re.compile(r"kernels serve: |start \{")
MODELS = ("llama-3.2-1b", "qwen2.5-1.5b")
USERS = (1, 8, 32, 128, 256)


@dataclass
class Measured:
    """A row before it is judged, and the (prompt, answer) pairs that judge it."""

    row: ServeRow
    answers: list[tuple[list[int], list[int]]] = field(default_factory=list)


@dataclass
class ServeBench:
    """One model under all of its traffic. `capacity` is what the first server reached, requests a second."""

    options: argparse.Namespace
    model: ServedModel
    users: list[int]
    lengths: Lengths
    floors: dict[int, float | None]
    folder: Path
    rounds: int = ROUNDS
    capacity: float | None = None

    @property
    def tensor_parallel_size(self) -> int | None:
        """The GPUs over which every server shards the model; None for one."""
        largest = max(self.options.tensor_parallel_size or [1])
        return largest if largest > 1 else None

    @property
    def unequal_lengths(self) -> Lengths:
        """The lengths of unequal requests."""
        max_ratio = min(MAX_LENGTH_RATIO, self.model.positions // self.lengths.longest)
        return Lengths(self.lengths.prompt, self.lengths.tokens, SIGMA, max(1, max_ratio))

    def servers(self) -> list[ServerCommand]:
        """vLLM last, but first where its capacity sets a rate. Raises ValueError when its Python is wrong."""
        from kernels.runners.vllm_runner import environment

        def wanted(directory: Path) -> ServerSettings:
            longest = max(self.lengths.longest, self.unequal_lengths.longest if self._unequal else 0)
            return ServerSettings(
                directory, self.model.name, self.model.dtype, reserve_port(), longest, max(self.users)
            )

        plain, stored = self.model.directory, self.model.stored or self.model.directory
        size, pages = self.tensor_parallel_size, self.options.kv_cache_dtype
        shared = [f"--tensor-parallel-size={size}"] if size else []
        shared += [f"--kv-cache-dtype={pages}"] if pages else []
        own, precisions = [*(self.options.own_option or []), *shared], self.options.weights or [self.model.dtype]
        commands = [serve_document.ours(wanted(plain), self.model.device, own, weights) for weights in precisions]
        if self.options.vllm:
            try:
                options, count = [*(self.options.vllm_option or []), *shared], self.options.vllm_api_servers
                peers = [vllm(wanted(stored), self.options.vllm, environment(), options)]
                if count:
                    again = vllm(
                        wanted(stored), self.options.vllm, environment(), [*options, f"--api-server-count={count}"]
                    )
                    peers.append(replace(again, variant="vllm_api_servers"))
                if self.options.vllm_plugin:
                    again = vllm(wanted(stored), self.options.vllm, environment(), options)
                    peers.append(with_plan(again, self.plan_file()))
                commands = [*peers, *commands] if self._unequal else [*commands, *peers]
            except ValueError as error:
                raise ValueError(f"--vllm: {error}") from error
        return commands

    def plan_file(self) -> Path:
        """The file of a plan that leaves every choice to the library."""
        *_, digest = digested(self.model.directory, 0)
        plan = Plan(model_digest=digest, gpu=current_device()[1].gpu_class, runner="kernels", serving=Serving())
        path = self.folder / "plan.json"
        path.write_text(plan.model_dump_json())
        return path

    @property
    def _unequal(self) -> bool:
        return bool(self.options.poisson)

    def rows(self, server: ServerCommand) -> Iterator[Measured]:
        """What one server did under every load; one row with the reason when it did not start."""
        port = server.command[server.command.index("--port") + 1]
        url, log = f"http://127.0.0.1:{port}", self.folder / f"{server.variant}.log"
        try:
            with run_server(server.command, f"{url}/health", log, serve_document.START_SECONDS, server.environment):
                print(*_notes(log), sep="\n", flush=True)
                for users in self.users:
                    yield self.run_closed_loop(server, url, self.lengths, users)
                if self._unequal:
                    capacity = self.run_closed_loop(server, url, self.unequal_lengths, max(self.users))
                    self.capacity = self.capacity or capacity.row.requests_per_second
                    yield capacity
                    yield self._run_open_loop(server, url)
        except NotStarted as error:
            case = self._case(server, self.lengths, 0, concurrency=self.users[0])
            yield Measured(
                ServeRow(case=case, variant=server.variant, peer=server.peer, gate="error", reason=str(error))
            )

    def run_closed_loop(self, server: ServerCommand, url: str, lengths: Lengths, users: int) -> Measured:
        self._send(url, self._list(lengths, 2 * users, seed=1), users)
        requests = self._list(lengths, self.rounds * users, seed=2)
        case = self._case(server, lengths, len(requests.planned), concurrency=users)
        return self._measure(server, case, requests, self._send(url, requests, users))

    def _run_open_loop(self, server: ServerCommand, url: str) -> Measured:
        rate = self.options.rate or SHARE_OF_CAPACITY * (self.capacity or 1.0)
        count = max(ROUNDS, round(rate * self.options.poisson))
        requests = self._list(self.unequal_lengths, count, seed=3, rate=rate)
        case = self._case(server, self.unequal_lengths, count, rate=round(rate, 3))
        return self._measure(server, case, requests, self._send(url, requests, None))

    def _list(self, lengths: Lengths, count: int, seed: int, rate: float | None = None) -> RequestList:
        return RequestList.random(lengths, count, self.model.vocabulary, 1000 * count + seed, rate, JUDGED)

    def _send(self, url: str, requests: RequestList, users: int | None) -> LoadFigures:
        processes = min(max_processes(server_is_local=True), processes_for(users, requests.planned, MAX_SECONDS))
        load = partial(requests.load, self.model.name, users)
        sending = DistributedLoad(Address.parse(url), load, LoadDuration(MAX_SECONDS), processes)
        return LoadFigures([drop_warm_up(asyncio.run(sending.run()))])

    def _case(self, server: ServerCommand, lengths: Lengths, requests: int, **load: Any) -> ServeCase:
        return ServeCase(
            model=self.model.name,
            weights=server.settings.get("weights", self.model.dtype),
            prompt=lengths.prompt,
            tokens=lengths.tokens,
            lengths=lengths.described,
            arrivals="closed" if "concurrency" in load else "poisson",
            requests=requests,
            gpus=self.tensor_parallel_size,
            kv_cache_dtype=self.options.kv_cache_dtype,
            checkpoint=self.model.checkpoint,
            **load,
        )

    def _measure(self, server: ServerCommand, case: ServeCase, requests: RequestList, figures: LoadFigures) -> Measured:
        objective = LatencyObjective(self.options.ttft_ms, self.options.tpot_ms)
        has_floor = case.lengths == "equal" and case.weights == self.model.dtype and case.kv_cache_dtype is None
        floor = self.floors.get(case.concurrency or 0) if has_floor else None
        failed, lag = figures.unlike, figures.lag
        row = ServeRow(
            case=case,
            variant=server.variant,
            peer=server.peer,
            gate="error",
            reason=(failed[0].sentence or "an answer has not the length that was asked for")
            if failed
            else "not judged",
            tokens_per_second=round(figures.tokens_per_second, 1),
            requests_per_second=round(figures.ended_per_second, 3),
            seconds=round(figures.seconds, 2),
            ttft_ms=figures.percentiles("ttft"),
            ttf64_ms=figures.percentiles("ttf_n", FLOOR_TOKENS),
            tpot_ms=figures.percentiles("tpot"),
            goodput=round(figures.goodput_by(objective.is_met), 3),
            promise_ms={"ttft": objective.ttft_ms, "tpot": objective.tpot_ms},
            floor_ms=floor,
            floor_tokens_per_second=round(1000 * FLOOR_TOKENS * (case.concurrency or 0) / floor, 1) if floor else None,
            failed=len(failed),
            generator={
                "processes": lag.processes,
                "send_late_ms": round(lag.send_p99, 3),
                "read_late_ms": round(lag.loop_p99, 3),
            },
            void=lag.sentence(closed=not figures.open_loop),
            settings=server.settings,
        )
        judged = [
            exchange
            for exchange in figures.rounds[0].exchanges
            if exchange.ids and exchange.planned.index in requests.judged
        ]
        return Measured(row, [(requests.prompts[exchange.planned.index], exchange.ids) for exchange in judged])

    def judge(self, measured: list[Measured]) -> None:
        """Sets the gate of every row that was measured: the ids that were served must be the model's."""
        for load, answers in zip(measured, self.model.judged([load.answers for load in measured]), strict=True):
            row = load.row
            if not answers or row.failed:
                row.reason = row.reason if row.failed else "no answer gave its ids, so none could be judged"
                continue
            gaps = joined(answers)
            row.logit_gaps = {"mean": gaps.mean, "largest": gaps.largest, "ids": gaps.tokens}
            rounded = rounding_of(row, self.model)
            precisions = rounded, row.case.kv_cache_dtype or rounded
            row.reason = answers_refusal(answers, max(MAX_DIFFERENCE[precision] for precision in precisions)) or ""
            row.gate = "fail" if row.reason else "pass"


def rounding_of(row: ServeRow, model: ServedModel) -> str:
    """The precision whose rounding answers may show: in fp8 this server holds the very values, peers round more."""
    if stored_rows(model.config):
        return "fp8" if row.peer else model.dtype if row.case.weights == "fp8" else row.case.weights
    return row.case.weights


def bench_serve(options: argparse.Namespace) -> int:
    """Measures every model. Returns 0; 1 when a row did not pass; 2 for a wrong call."""
    from kernels.measure.ceilings import measure_ceilings

    device, _, environment = current_device()
    cpu = device.type == "cpu"
    dtype = "fp32" if cpu else "bf16"
    if absent := next((weight for weight in options.weights or [] if weight not in (dtype, *WEIGHTS)), ""):
        print(f"kernels bench: --weights: {absent} is not served; {', '.join((dtype, *WEIGHTS))} are", file=sys.stderr)
        return 2
    if options.vllm_plugin and options.kv_cache_dtype:
        print("kernels bench: --vllm-plugin: it leaves a model with a KV cache in fp8 to vLLM", file=sys.stderr)
        return 2
    models = options.model or (("tiny-llama",) if cpu else MODELS)
    try:
        for named in models:
            catalogue_config(named)
    except ValueError as error:
        print(f"kernels bench: {error}", file=sys.stderr)
        return 2
    document = ServeDocument(
        **{name: environment.get(name) or "" for name in bench_document.FACTS},
        versions=environment.get("versions") or {},
        ceilings=dict(measure_ceilings(device.type, quick=True)),
        rows=[],
        note="A CPU: these figures say nothing about a GPU." if cpu else "",
    )
    try:
        if options.append and options.json is not None and options.json.exists():
            document = bench_document.append_rows(bench_document.read_as(ServeDocument, options.json), document)
    except (OSError, ValueError) as error:
        print(f"kernels bench: {options.json}: {error}", file=sys.stderr)
        return 1
    users = options.users or (USERS[:2] if cpu else USERS)
    lengths = Lengths((options.prompt or [128])[0], options.tokens or FLOOR_TOKENS)
    for named in models:
        with tempfile.TemporaryDirectory(prefix="bench-serve-") as folder:
            try:
                gpus = max(options.tensor_parallel_size or [1])
                model = prepare_model(named, dtype, device.type, Path(folder) / "model", bool(options.vllm), gpus)
                bench = ServeBench(options, model, list(users), lengths, {}, Path(folder))
                if bench.tensor_parallel_size is None:
                    bench.floors = model.floors(lengths.prompt, list(users), document.ceilings)
                servers = bench.servers()
            except ValueError as error:
                print(f"kernels bench: {error}", file=sys.stderr)
                return 2
            measured: list[Measured] = []
            for server in servers:
                for load in bench.rows(server):
                    measured.append(load)
                    document.rows.append(load.row)
                    print(format_row(load.row), flush=True)
                    _write(options.json, document)
            bench.judge(measured)
            _write(options.json, document)
            for load in measured:
                print(
                    f"{load.row.variant:<8} {load.row.gate:<6} {describe_load(load.row.case)} {load.row.reason}",
                    flush=True,
                )
    return int(any(row.gate != "pass" for row in document.rows))


def _notes(log: Path) -> list[str]:
    """What this library's server says of its start: its phases, and what it decided."""
    return [line for line in log.read_text(errors="replace").splitlines() if NOTE.search(line)]


def _write(path: Path | None, document: ServeDocument) -> None:
    if path is not None:
        bench_document.write(path, document)


def describe_load(case: ServeCase) -> str:
    """The model and its load, in a few words."""
    load = f"{case.concurrency} users" if case.concurrency else f"{case.rate:g} requests/s"
    return (
        f"{case.model} {case.weights}{' KV fp8' * bool(case.kv_cache_dtype)} {case.prompt}/{case.tokens} "
        f"{case.lengths.split(',')[0]} {case.arrivals} {load}"
    )


def format_row(row: ServeRow) -> str:
    """A row for a terminal."""
    if row.tokens_per_second is None or row.ttft_ms is None:
        return f"{row.variant:<8} {describe_load(row.case)}: {row.reason}"
    floor = (
        f" {row.tokens_per_second / row.floor_tokens_per_second:.0%} of floor" if row.floor_tokens_per_second else ""
    )
    shown = [f"{row.variant:<8} {describe_load(row.case)}: {row.tokens_per_second:,.0f} tokens/s{floor}"]
    for name, interval in (("TTFT", row.ttft_ms), ("TTF64", row.ttf64_ms), ("TPOT", row.tpot_ms)):
        if interval:
            shown.append(f"{name} {interval['p50']:.2f} ({interval['p99']:.2f}) ms")
    sentence = ", ".join([*shown, f"goodput {row.goodput:.2f}/s, {row.failed} failed"])
    return f"{sentence}. {row.void}" if row.void else sentence
