"""Drawn tokens have the distribution that their requests ask for: χ² of many draws through a step's own functions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.products import Rows as ProductRows
from kernels.model.products import Stream
from kernels.ops.sampling import Sampling
from kernels.plan import PlannedOp
from kernels.server.execution.heads import head_case, sampling_head
from kernels.server.execution.inputs import Fields, Sequences, size, views
from kernels.server.execution.packed import sample_tokens
from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step
from tests.kernels.runners.engine_models import load

PAGE, PAGES = 16, 1
GOLDEN = 0x9E3779B97F4A7C15
"""Its multiples are seeds that use all 64 bits."""
Draw = Callable[[Fields], Tensor]
"""Fields of a pass ↦ ids [rows]."""


def seeded(settings: Sequence[Sampling], each: int) -> list[Sampling]:
    """`each` samplings for each of the settings in turn; no two have the same seed and stream."""
    tokens = []
    for number in range(len(settings) * each):
        how = settings[number // each]
        tokens.append(replace(how, seed=(number // 3 + 1) * GOLDEN % (1 << 64), stream=number % 3))
    return tokens


class Rows:
    """A request for each sampling. `fields` fills a pass of decodes for all of them."""

    def __init__(self, hows: Sequence[Sampling], device: str = "cpu") -> None:
        self.shape = PassShape(len(hows), 0, PAGE, 0)
        self._sequences = Sequences(len(hows), PAGES, PAGE)
        self._host = torch.zeros(size(self.shape, PAGES), dtype=torch.uint8)
        self._memory = self._host.to(device)
        self._requests = [Request(str(slot), [1], 1, how) for slot, how in enumerate(hows)]
        for slot, request in enumerate(self._requests):
            request.slot, request.admitted, request.pages = slot, 1, [0]

    def fields(self, place: int) -> Fields:
        """The fields in which every request's next token is the one at `place` of its sequence."""
        arrays = {name: each.numpy() for name, each in views(self._host, self.shape, PAGES)._asdict().items()}
        step = Step([ScheduledTokens(request, 0, 1, True, place) for request in self._requests])
        self._sequences.fill(step, self.shape, arrays)
        self._memory.copy_(self._host)
        return views(self._memory, self.shape, PAGES)

    def drawn(self, draw: Draw, places: int, same_place: bool = False) -> np.ndarray:
        """The ids [places, rows] of the tokens at places 1, 2, … of all sequences."""
        return np.stack([draw(self.fields(1 if same_place else at + 1)).cpu().numpy() for at in range(places)])


FALSE_ALARM = 1e-6
MIN_EXPECTED = 8.0
"""Tokens that are expected less often are counted together."""
CELLS = 12
REQUESTS, PLACES, VOCAB = 64, 64, 100
WHOLE, HOT = Sampling(0.9), Sampling(1.6)
TOP_K, TOP_P, BOTH = Sampling(1.3, top_k=12), Sampling(1.1, top_p=0.4), Sampling(1.2, top_k=40, top_p=0.75)
SETTINGS = {"temperature": WHOLE, "high temperature": HOT, "top-k": TOP_K, "top-p": TOP_P, "both": BOTH}


def one_likely() -> Tensor:
    """Logits [vocab], all different: one token is about as likely as all others together."""
    result = 0.4 * torch.randn(VOCAB, generator=torch.Generator().manual_seed(1))
    result[77] = 4.2
    assert len(result.unique()) == VOCAB
    return result


def shares(logits: Tensor, how: Sampling) -> np.ndarray:
    """Each token's probability by definition: the top-k largest, of these as many as reach top-p."""
    scaled = logits.double().numpy() / how.temperature
    order = np.argsort(-scaled, kind="stable")[: how.top_k or len(logits)]
    mass = np.exp(scaled[order] - scaled.max())
    mass = mass[: 1 + int(np.searchsorted(mass.cumsum(), how.top_p * mass.sum()))] if how.top_p < 1 else mass
    counts = np.zeros(len(logits))
    counts[order[: len(mass)]] = mass / mass.sum()
    return counts


def cells(wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that may be drawn, likeliest first, and the number of each one's cell, CELLS at most."""
    order = np.argsort(-wanted, kind="stable")[: int((wanted > 0).sum())]
    before = wanted[order].cumsum() - wanted[order]
    return order, np.unique(np.floor(before * CELLS), return_inverse=True)[1]


def chance(ids: np.ndarray, wanted: np.ndarray) -> float:
    """The probability that right draws are as far from the `wanted` shares as these ids; 0 for one without a share."""
    counts, expected = np.bincount(ids.ravel(), minlength=len(wanted)), wanted * ids.size
    if counts[wanted == 0].any():
        return 0.0
    order, cell = cells(wanted)
    alone = np.where(expected[order] >= MIN_EXPECTED, np.arange(len(order)), len(order))
    token = np.unique(alone, return_inverse=True)[1]
    tokens = []
    for groups in (token, cell):
        seen, hoped = (np.bincount(groups, weights=value[order]) for value in (counts, expected))
        tokens.append(tail(((seen - hoped) ** 2 / hoped).sum(), len(hoped) - 1))
    return 2 * min(tokens)


def tail(distance: float, freedom: int) -> float:
    """The probability that χ² with these degrees of freedom exceeds the distance."""
    half = torch.tensor([freedom / 2, distance / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def by_logits(logits: Tensor) -> Draw:
    def draw(fields: Fields) -> Tensor:
        rows = len(fields.target)
        out, last = (torch.full((size,), -1, device=logits.device) for size in (rows, rows + 1))
        sample_tokens(logits.expand(rows, -1).contiguous(), fields, out, last)
        assert torch.equal(last[fields.target], out)
        return out

    return draw


@pytest.fixture(scope="module")
def drawn() -> Callable[[Draw, Sequence[Sampling]], np.ndarray]:
    def found(draw: Draw, settings: Sequence[Sampling]) -> np.ndarray:
        """The ids of each setting [settings, sampled]."""
        ids = Rows(seeded(settings, REQUESTS)).drawn(draw, PLACES)
        return ids.reshape(PLACES, len(settings), REQUESTS).swapaxes(0, 1)

    return found


def test_draws_of_a_mixed_step_have_the_distribution_of_each_request(drawn) -> None:
    logits = one_likely()
    for how, ids in zip(SETTINGS.values(), drawn(by_logits(logits), [*SETTINGS.values()]), strict=True):
        assert chance(ids, shares(logits, how)) > FALSE_ALARM, how


@pytest.mark.gpu
def test_draws_on_a_gpu_have_the_distribution_of_each_request() -> None:
    logits, settings = one_likely(), [*SETTINGS.values()]
    ids = Rows(seeded(settings, REQUESTS), "cuda").drawn(by_logits(logits.cuda()), PLACES)
    for how, own in zip(settings, ids.reshape(PLACES, len(settings), REQUESTS).swapaxes(0, 1), strict=True):
        assert chance(own, shares(logits, how)) > FALSE_ALARM, how


def test_draws_of_an_lm_head_have_the_distribution_of_each_request(drawn) -> None:
    model = Decoder(load("llama", seed=1))
    settings = [TOP_K, BOTH]
    rows = len(settings) * REQUESTS
    case = head_case(model, rows, "top_k_p")
    op = PlannedOp(op="lm_head", case=case.model_dump(), variant="torch_lm_head_sampling")
    products = ProductRows(BoundVariants([op], GPUS["cpu"]), rows, "fp32", model.eps)
    x = torch.randn(1, model.lm_head.shape[1], generator=torch.Generator().manual_seed(2))
    normed = x.double() * (x.double().square().mean() + model.eps).rsqrt() * model.norm.double()
    model.lm_head = model.lm_head * float(2 / (normed @ model.lm_head.double().T).std())
    logits = (normed @ model.lm_head.double().T)[0]

    def draw(fields: Fields) -> Tensor:
        return sampling_head(products, model, fields, "top_k_p")(Stream(x.expand(rows, -1)))

    for how, ids in zip(settings, drawn(draw, settings), strict=True):
        assert chance(ids, shares(logits, how)) > FALSE_ALARM, how
        assert chance(ids, shares(logits, replace(how, temperature=1.2 * how.temperature))) < FALSE_ALARM


def of_tokens(logits: Tensor, how: Sampling, more: int) -> Sampling:
    """The setting with another top-p, by which so many more tokens are kept."""
    whole = np.sort(shares(logits, replace(how, top_p=1.0)))[::-1]
    kept = int((shares(logits, how) > 0).sum()) + more
    return replace(how, top_p=float(whole[:kept].sum() - whole[kept - 1] / 2))


PLANTED: dict[str, tuple[Sampling, Sampling]] = {
    "a temperature too high by 5 %": (WHOLE, replace(WHOLE, temperature=0.9 * 1.05)),
    "top-k of one token more": (TOP_K, replace(TOP_K, top_k=13)),
    "top-p of one token less": (TOP_P, of_tokens(one_likely(), TOP_P, -1)),
    "top-p of what top-k leaves out as well": (BOTH, of_tokens(one_likely(), replace(BOTH, top_k=0), 0)),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str, drawn) -> None:
    asked, planted = PLANTED[mistake]
    logits = one_likely()
    (ids,) = drawn(by_logits(logits), [planted])
    assert chance(ids, shares(logits, planted)) > FALSE_ALARM
    assert chance(ids, shares(logits, asked)) < FALSE_ALARM


def test_noise_that_does_not_depend_on_place_or_seed_is_found() -> None:
    logits = one_likely()
    wanted = shares(logits, WHOLE)
    alike = Rows(seeded([WHOLE], REQUESTS)).drawn(by_logits(logits), PLACES, same_place=True)
    assert chance(alike, wanted) < FALSE_ALARM
    one_seed = Rows([replace(WHOLE, seed=7)] * REQUESTS).drawn(by_logits(logits), PLACES)
    assert chance(one_seed, wanted) < FALSE_ALARM
