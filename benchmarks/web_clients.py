"""Browsers that sign in, look at pages and submit workloads at times that are fixed beforehand."""

import asyncio
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

READS = {
    "run, live part": ("/runs/{open}/", 45),
    "portfolio": ("/workloads/", 13),
    "workload": ("/workloads/{workload}/", 8),
    "run": ("/runs/{open}/", 8),
    "result": ("/runs/{run}/result/", 10),
    "models": ("/models/", 3),
    "form": ("/workloads/new/", 5),
    "run by the API": ("/api/v1/runs/{run}", 8),
}
"""Address and weight of each kind of read. The page of an open run fetches its live part every 1.5 s."""
SUBMIT = "submit"
SUBMIT_SHARE = 0.1
FORM = {
    "do": "start",
    "name": "load",
    "model": "llama-3.2-1b",
    "traffic.prompt_tokens": "128",
    "traffic.output_tokens": "64",
    "traffic.batch": "1",
    "objectives[0].metric": "ttf_n",
    "objectives[0].n": "64",
    "objectives[0].percentile": "50",
    "objectives[0].limit": "100",
    "constraints.gpu_classes": ["h200"],
    "constraints.precisions": ["bf16"],
}
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@dataclass(frozen=True)
class Planned:
    """One request: what, by which client, and how many seconds after the beginning it is sent."""

    at: float
    client: int
    kind: str


@dataclass
class Observed:
    """A planned request with its time, from its planned moment to the whole response, and what went wrong."""

    planned: Planned
    seconds: float
    late: float
    error: str = ""


@dataclass
class Person:
    """A browser of its own, at an address of its own in 127.0.0.0/8."""

    facts: dict[str, str]
    number: int
    http: httpx.AsyncClient = field(init=False)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        address = f"127.1.{self.number // 250}.{self.number % 250 + 1}"
        transport = httpx.AsyncHTTPTransport(local_address=address, limits=httpx.Limits(keepalive_expiry=15))
        self.http = httpx.AsyncClient(transport=transport, base_url=self.facts["site"], timeout=30)

    async def sign_in(self) -> float:
        """Log in by the form, as a person does; the seconds that took."""
        page = await self.http.get("/login/")
        token = TOKEN.search(page.text)
        assert token, page.text
        form = {"csrfmiddlewaretoken": token[1], "username": self.facts["email"], "password": self.facts["password"]}
        began = time.monotonic()
        answer = await self.http.post("/login/", data=form, headers={"Referer": f"{self.facts['site']}/login/"})
        assert answer.status_code == 302, answer.text
        return time.monotonic() - began

    async def act(self, kind: str) -> str:
        """Make one request; an empty string, or what was wrong with its answer."""
        if kind == SUBMIT:
            form = {**FORM, "csrfmiddlewaretoken": self.http.cookies["csrftoken"]}
            answer = await self.http.post("/workloads/new/", data=form)
            return "" if answer.status_code == 302 else f"{answer.status_code}: {answer.text[:300]}"
        headers = {"HX-Request": "true"} if kind == "run, live part" else {}
        answer = await self.http.get(READS[kind][0].format(**self.facts), headers=headers)
        return "" if answer.status_code == 200 else f"{answer.status_code}: {answer.text[:300]}"


def schedule(clients: int, rate: float, seconds: float, seed: int) -> list[Planned]:
    """Requests as a Poisson process of `rate` a second, given to the clients round-robin; each thinks between two."""
    generator, planned, at = random.Random(seed), list[Planned](), 0.0
    order = generator.sample(range(clients), clients)
    kinds, weights = list(READS), [weight for _, weight in READS.values()]
    while (at := at + generator.expovariate(rate)) < seconds:
        submits = generator.random() < SUBMIT_SHARE
        kind = SUBMIT if submits else generator.choices(kinds, weights)[0]
        planned.append(Planned(at, order[len(planned) % clients], kind))
    return planned


async def sign_in_all(people: Sequence[Person]) -> list[float]:
    """The sign-ins' seconds; two at a time, since each is half a second of work for a core."""
    both = asyncio.Semaphore(2)

    async def one(person: Person) -> float:
        async with both:
            return await person.sign_in()

    return list(await asyncio.gather(*map(one, people)))


async def play(people: Sequence[Person], plan: Sequence[Planned]) -> list[Observed]:
    """Send every request at its time, whether or not those before it were answered."""
    begin = time.monotonic() + 1

    async def one(planned: Planned) -> Observed:
        person, due = people[planned.client], begin + planned.at
        await asyncio.sleep(due - time.monotonic())
        late = time.monotonic() - due
        async with person.turn:
            try:
                error = await person.act(planned.kind)
            except httpx.HTTPError as problem:
                error = f"{type(problem).__name__}: {problem}"
        return Observed(planned, time.monotonic() - due, late, error)

    return list(await asyncio.gather(*map(one, plan)))
