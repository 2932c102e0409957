"""What a model predicts of a run before it spends GPU time, and what was then measured of it."""

from pydantic import Field

from workers.documents.base import Basis, Document


class PredictedFigure(Document):
    """A median in ms; with `users`, the output tokens per second that so many users at once are given."""

    metric: str
    n: int | None = None
    users: int | None = None
    unit: str = "ms"
    value: float


class PredictedPlan(Document):
    """What is predicted of a runner's plan on so many GPUs whose weights are in one precision.

    `runner` is that of the plan, or `cuda_graphs` for torch's kernels under CUDA graphs. It is empty in documents from
    before runners had predictions of their own.
    """

    runner: str = ""
    tensor_parallel_size: int = Field(default=1, ge=1)
    weights: str
    figures: list[PredictedFigure]


class Prediction(Document):
    """What is predicted of the plans that the run may find; `missing` are sentences about what is not predicted."""

    basis: Basis = "modelled"
    plans: list[PredictedPlan] = []
    assumptions: list[str] = []
    missing: list[str] = []


class ComparedFigure(Document):
    """A predicted figure of a runner's plan beside the measured one.

    Without a `runner` it is of the roofline alone, from before runners had predictions of their own.
    """

    runner: str = ""
    label: str
    unit: str
    predicted: float
    measured: float = Field(gt=0)

    @property
    def error(self) -> float:
        """The signed error as a share of what was measured: below 0 the prediction was too small."""
        return self.predicted / self.measured - 1
