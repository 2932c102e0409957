"""What a verified plan says to its server."""

from kernels.plan import Plan
from tests.workers.conftest import stage_input
from workers.planning.serving import serving_of


def test_a_server_leaves_out_what_the_workload_excludes() -> None:
    found = []
    for exclude in ([], ["megakernel"], ["small_gemm", "flash_hopper"], ["kernels"]):
        document = stage_input("verify", constraints={"exclude": exclude})
        plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="kernels", dtype="fp32")
        serving = serving_of(plan, document)
        found.append((serving.megakernel_up_to, serving.exclude) if serving else None)
    assert found == [(None, []), (0, []), (None, ["small_gemm"]), None]
