"""Cost against latency over the classes of GPU that a workload allows: its newest runs, and predictions of the rest."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from workbench.intake.models import Workload
from workbench.intake.services.ceilings import known_ceilings
from workbench.intake.services.workloads import fewest_gpus
from workbench.prices.services import price_book
from workbench.results.page_context import ChartView, chart_view
from workbench.runs import services
from workbench.runs.models import Run, StageRun
from workers.charts import front
from workers.cost.cost_points import points
from workers.documents.gpu_class import single_gpu_class
from workers.documents.model import ModelManifest
from workers.documents.prediction import Prediction
from workers.documents.stages import Results
from workers.documents.workload import Workload as WorkloadDocument
from workers.prediction.predict import predict_run

READ = ("compose", "verify", "price")
NOTE = (
    "Medians at the workload's own traffic and the price book's typical price, for every GPU of a plan. The front "
    "joins the measured plans that no other measured one beats in both. Modelled points take no host into "
    "account."
)


class Front(NamedTuple):
    """The chart with its table, and the classes of one GPU whose points, also those of several, are modelled."""

    chart: ChartView
    modelled: Sequence[str]


def front_of(workload: Workload, document: WorkloadDocument, manifest: ModelManifest) -> Front | None:
    """The chart with its table; None where there is no point, or the first promise is no time."""
    measured = _measured(workload)
    others = [gpu_class for gpu_class in document.constraints.gpu_classes if gpu_class not in measured]
    large_enough = [gpu_class for gpu_class in others if fewest_gpus(manifest, document, gpu_class)]
    ceilings = known_ceilings(workload.organisation, large_enough)
    modelled_on: dict[str, Prediction] = {
        gpu_class: predict_run(document, manifest, gpu_class, ceilings, lowered=False) for gpu_class in large_enough
    }
    first = document.objectives[0]
    front_points = points(document, price_book(workload.organisation), measured, modelled_on)
    if not front_points:
        return None
    shown = front.figure(front_points, first, manifest.counted), front.table(front_points, first, manifest.counted)
    modelled = [*dict.fromkeys(single_gpu_class(name) for name, known in modelled_on.items() if known.plans)]
    return Front(chart_view("front", "Cost against latency", NOTE, "modelled", "", *shown), modelled)


def _measured(workload: Workload) -> dict[str, Results]:
    """What the newest run that is done found, by class of GPU."""
    newest: dict[str, UUID] = {}
    done = workload.runs.filter(state=Run.State.DONE).order_by("-created_at")
    for run, gpu_class in done.values_list("id", "gpu_class"):
        newest.setdefault(gpu_class, run)
    rows = StageRun.objects.filter(run__in=newest.values(), stage__in=READ, state=StageRun.State.DONE)
    stages = list(rows.values_list("run_id", "stage", "result"))
    return {
        gpu_class: services.reading_of((stage, result) for of, stage, result in stages if of == run)[0]
        for gpu_class, run in newest.items()
    }
