"""What other applications may ask of intake."""

from workbench.intake.catalogue import model_for
from workbench.intake.uploads import release, sweep_uploads
from workbench.intake.workloads import check_workload, create_workload

__all__ = ["check_workload", "create_workload", "model_for", "release", "sweep_uploads"]
