"""What a verified plan says to a server of it."""

from kernels.model import decoder, loading
from kernels.model_files.families import stored_rows
from kernels.plan import Plan, Serving
from kernels.runners.sessions import positions
from kernels.server.execution.served_plans import MEGAKERNEL, PASSES, precision_refusal, server_exclusions
from kernels.server.execution.shapes import default_decodes
from kernels.server.execution.sizing import LONGEST_CONTEXT
from workers.documents.stages import StageInput
from workers.wording.serving import ROUNDS


def serving_of(plan: Plan, document: StageInput) -> tuple[Serving | None, str]:
    """The size of a server of the plan; None where the library's server cannot serve it, and why, in a sentence.

    The sizes are defaults, nothing measured: at least as many requests at once as the workload's traffic has. Where the
    workload excludes the megakernel, it gets no requests; variants that it excludes are not used.
    """
    excluded = document.workload.constraints.exclude
    if document.model.kind != "decoder":
        return None, "The model generates no text token by token."
    if PASSES in excluded:
        return None, f"The workload excludes {PASSES}, of which all passes of the server are made."
    if precision_refusal(plan, stored_rows(document.model.config)):
        return None, ROUNDS
    skeleton = loading.skeleton(document.model.config, plan.dtype)
    if reason := decoder.refusal(skeleton):
        return None, f"The server cannot run this model: {reason}."
    traffic = document.workload.traffic
    running = max(Serving().max_num_seqs, traffic.batch * traffic.concurrency)
    context = min(positions(skeleton.config), LONGEST_CONTEXT)
    serving = Serving(
        max_model_len=context,
        max_num_seqs=running,
        graph_rows=default_decodes(running),
        megakernel_up_to=0 if MEGAKERNEL in excluded else None,
        exclude=[runner for runner in server_exclusions(excluded) if runner != MEGAKERNEL],
    )
    return serving, ""
