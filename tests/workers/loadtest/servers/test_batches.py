"""A runner under load in batches: its steady part lasts as long as the load, however few requests come in it."""

import pytest

from kernels import runners
from kernels.load.generator import LoadDuration
from kernels.model_files import catalogue
from workers.documents.traffic import Traffic
from workers.loadtest.servers.sides import BatchLoop


@pytest.mark.parametrize("last_s", [1.5, 60.0])
def test_the_steady_part_of_sparse_arrivals_ends_with_the_load(tmp_path, last_s):
    """Behind the last request that is due in it nothing comes; the rate is then low, and not that of one answer."""
    (tmp_path / "calls.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n0,4,2\n0.5,4,2\n{last_s},4,2\n")
    arrivals = {"kind": "recorded"}
    traffic = Traffic(prompt_tokens=4, output_tokens=2, arrivals=arrivals, recording="calls.csv", concurrency=2)
    model = runners.load(None, catalogue.entry("tiny-llama")[0], generated=True, dtype="fp32", device="cpu")
    runner = runners.runner("eager", model)
    sent = BatchLoop(runner, traffic, LoadDuration(1.5, warm_up_s=0.3), (4, 2), tmp_path).run()
    assert [len(each.token_ns) for each in sent.exchanges] == [2, 2]
    assert sent.steady_seconds == pytest.approx(1.2)
