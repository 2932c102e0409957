"""The texts of requests: as many tokens as were asked for, whatever the server counts."""

import pytest

from kernels.load.planned import PlannedRequest
from workers.documents.traffic import Traffic
from workers.loadtest.measuring import PROBES
from workers.loadtest.prompts import PromptTexts, TokenScale


@pytest.mark.parametrize("tokens", [16, 128, 1024])
def test_a_server_that_reads_bytes_gets_prompts_of_the_wanted_length(tokens: int) -> None:
    """Words of unlike lengths would have other numbers of bytes in the probes than in the requests."""
    traffic = Traffic(prompt_tokens=tokens, output_tokens=1)
    probes = [_size(traffic, TokenScale(), words, 100 + words) for words in PROBES]
    scale = TokenScale.from_counts(PROBES, (probes[0], probes[1]))
    for index in range(20):
        assert abs(_size(traffic, scale, tokens, index) - tokens) <= 2


def test_a_server_that_counts_next_to_nothing_gets_no_endless_prompts() -> None:
    assert TokenScale.from_counts(PROBES, (10, 11)).words(131_072) == 131_072
    assert TokenScale.from_counts(PROBES, (16, 80)).words(128) == 256


def _size(traffic: Traffic, scale: TokenScale, tokens: int, index: int) -> int:
    return len(PromptTexts(traffic, scale).text(PlannedRequest(index, None, 0.0, tokens, 1)).encode())
