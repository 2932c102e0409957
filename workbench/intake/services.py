"""What other applications may ask of intake."""

from workbench.intake.catalogue import model_for
from workbench.intake.cleaning import sweep_uploads
from workbench.intake.workloads import check_workload, create_workload

__all__ = ["check_workload", "create_workload", "model_for", "sweep_uploads"]
