"""The longest time for one case: what is asked for, and the builds of its compiled peers beside it."""

import pytest

from kernels import registry
from kernels.__main__ import main
from kernels.measure import ceilings
from kernels.tune import autotune


@pytest.mark.parametrize(("asked", "usual"), [(["--seconds", "0.2"], 0.2), ([], 20.0)])
def test_builds_of_compiled_peers_are_added_to_what_is_asked_for(asked, usual, monkeypatch):
    seen = []
    rates = {"read_tbps": 0.01, "copy_tbps": 0.01, "matrix_tflops": {"fp32": 0.1, "bf16": 0.2}, "launch_us": 1.0}
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_, **__: rates)
    monkeypatch.setattr(autotune, "try_case", lambda place, case, seconds: seen.append(seconds) or [])
    building = registry.variant("torch_gated_compiled").build_seconds
    main(["bench", "fused", "--only", "op=gated m=1 n=", "--compiled", *asked])
    assert seen
    assert set(seen) == {usual + 2 * building}
    seen.clear()
    main(["bench", "fused", "--only", "op=gated m=1 n=", *asked])
    assert set(seen) == {usual}
