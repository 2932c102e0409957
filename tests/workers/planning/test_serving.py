"""What a verified plan says to its server."""

from kernels.plan import Plan
from tests.workers.conftest import stage_input
from workers.planning.serving import serving_of


def test_a_server_has_no_megakernel_where_the_workload_excludes_it() -> None:
    found = []
    for exclude in ([], ["megakernel"]):
        document = stage_input("verify", constraints={"exclude": exclude})
        plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="kernels", dtype="fp32")
        serving = serving_of(plan, document)
        assert serving is not None
        found.append(serving.megakernel_up_to)
    assert found == [None, 0]
