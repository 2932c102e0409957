"""Contains all the data models used in inputs/outputs"""

from .admit_result import AdmitResult
from .admit_result_kind import AdmitResultKind
from .any_load import AnyLoad
from .any_load_row import AnyLoadRow
from .artifact import Artifact
from .baseline_result import BaselineResult
from .bottleneck import Bottleneck
from .bring_up import BringUp
from .bring_up_detail import BringUpDetail
from .bring_up_stopped import BringUpStopped
from .bring_up_summary import BringUpSummary
from .cancellations import Cancellations
from .candidate import Candidate
from .candidate_case import CandidateCase
from .candidate_params import CandidateParams
from .catalogue_entry import CatalogueEntry
from .catalogue_entry_kind import CatalogueEntryKind
from .ceilings import Ceilings
from .ceilings_basis import CeilingsBasis
from .ceilings_matrix_tflops import CeilingsMatrixTflops
from .closed_loop import ClosedLoop
from .compared_figure import ComparedFigure
from .comparison import Comparison
from .comparison_ratios import ComparisonRatios
from .compose_result import ComposeResult
from .compose_result_plan import ComposeResultPlan
from .confinement import Confinement
from .constraints import Constraints
from .constraints_gpu_classes_item import ConstraintsGpuClassesItem
from .constraints_precisions_item import ConstraintsPrecisionsItem
from .constraints_prefer import ConstraintsPrefer
from .cost_line import CostLine
from .cost_line_price_basis import CostLinePriceBasis
from .cost_line_speed_basis import CostLineSpeedBasis
from .delete_artifact_stage import DeleteArtifactStage
from .delivery_out import DeliveryOut
from .demand import Demand
from .dependents import Dependents
from .deployment import Deployment
from .deployment_metric import DeploymentMetric
from .distribution import Distribution
from .distribution_basis import DistributionBasis
from .distribution_percentiles import DistributionPercentiles
from .drift import Drift
from .drift_side import DriftSide
from .endpoint import Endpoint
from .endpoint_api import EndpointApi
from .endpoint_ratio import EndpointRatio
from .endpoint_result import EndpointResult
from .endpoint_round import EndpointRound
from .energy import Energy
from .environment import Environment
from .environment_versions import EnvironmentVersions
from .event_item import EventItem
from .event_item_data_type_0 import EventItemDataType0
from .events import Events
from .explore_result import ExploreResult
from .feasibility import Feasibility
from .file_hash import FileHash
from .finish import Finish
from .fixed_length import FixedLength
from .fleet import Fleet
from .gamma import Gamma
from .gap import Gap
from .gap_kind import GapKind
from .generator_lag import GeneratorLag
from .gpu import Gpu
from .interval import Interval
from .lane_summary import LaneSummary
from .limit_result import LimitResult
from .list_runs_state_type_0 import ListRunsStateType0
from .load_curve import LoadCurve
from .load_failure import LoadFailure
from .load_metric import LoadMetric
from .load_metric_percentiles import LoadMetricPercentiles
from .load_outcome import LoadOutcome
from .load_outcome_verdict import LoadOutcomeVerdict
from .load_price import LoadPrice
from .load_result import LoadResult
from .load_result_api import LoadResultApi
from .load_result_verdict_type_0 import LoadResultVerdictType0
from .load_search import LoadSearch
from .load_tokens import LoadTokens
from .loaded_server import LoadedServer
from .loaded_server_kind import LoadedServerKind
from .loaded_server_settings import LoadedServerSettings
from .log_normal_length import LogNormalLength
from .machine import Machine
from .machine_ceilings import MachineCeilings
from .machine_ceilings_matrix_tflops import MachineCeilingsMatrixTflops
from .machine_limits import MachineLimits
from .machine_limits_absent import MachineLimitsAbsent
from .machine_rates import MachineRates
from .machine_rates_matrix_tflops import MachineRatesMatrixTflops
from .machine_versions import MachineVersions
from .me import Me
from .measure import Measure
from .model_cost import ModelCost
from .model_file import ModelFile
from .model_manifest import ModelManifest
from .model_manifest_config import ModelManifestConfig
from .model_manifest_counted import ModelManifestCounted
from .model_manifest_kind import ModelManifestKind
from .model_manifest_source import ModelManifestSource
from .model_out import ModelOut
from .model_out_kind_type_0 import ModelOutKindType0
from .model_ref import ModelRef
from .new_file import NewFile
from .new_price import NewPrice
from .new_price_book import NewPriceBook
from .new_report import NewReport
from .new_run import NewRun
from .new_token import NewToken
from .new_upload import NewUpload
from .new_upload_holds import NewUploadHolds
from .new_webhook import NewWebhook
from .objective import Objective
from .objective_direction import ObjectiveDirection
from .objective_metric import ObjectiveMetric
from .objective_outcome import ObjectiveOutcome
from .objective_outcome_verdict import ObjectiveOutcomeVerdict
from .objective_outcome_verdict_before import ObjectiveOutcomeVerdictBefore
from .op_row import OpRow
from .op_row_bound import OpRowBound
from .page_bring_up_summary import PageBringUpSummary
from .page_delivery_out import PageDeliveryOut
from .page_model_out import PageModelOut
from .page_query import PageQuery
from .page_recording_out import PageRecordingOut
from .page_report_summary import PageReportSummary
from .page_run_summary import PageRunSummary
from .page_token_out import PageTokenOut
from .page_upload_out import PageUploadOut
from .page_webhook_out import PageWebhookOut
from .page_workload_out import PageWorkloadOut
from .peer_trial import PeerTrial
from .peer_trial_settings import PeerTrialSettings
from .place_in_line import PlaceInLine
from .plan_check import PlanCheck
from .plan_profile import PlanProfile
from .plan_trial import PlanTrial
from .plan_trial_keeps_type_0 import PlanTrialKeepsType0
from .plan_trial_plan import PlanTrialPlan
from .poisson import Poisson
from .predicted_figure import PredictedFigure
from .predicted_plan import PredictedPlan
from .prediction import Prediction
from .prediction_basis import PredictionBasis
from .price import Price
from .price_book import PriceBook
from .price_point import PricePoint
from .price_point_basis import PricePointBasis
from .price_point_what import PricePointWhat
from .price_result import PriceResult
from .price_result_counted import PriceResultCounted
from .price_result_present_speed import PriceResultPresentSpeed
from .price_result_ratio_basis import PriceResultRatioBasis
from .problem_document import ProblemDocument
from .process_medians import ProcessMedians
from .profile_result import ProfileResult
from .profile_result_cases_item import ProfileResultCasesItem
from .quality import Quality
from .quality_called import QualityCalled
from .quality_compared import QualityCompared
from .race import Race
from .rates import Rates
from .rates_matrix_tflops import RatesMatrixTflops
from .read_artifact_stage import ReadArtifactStage
from .read_plan_response import ReadPlanResponse
from .read_stage_stage import ReadStageStage
from .reason import Reason
from .recorded_arrivals import RecordedArrivals
from .recorded_length import RecordedLength
from .recording import Recording
from .recording_out import RecordingOut
from .report_detail import ReportDetail
from .report_result import ReportResult
from .report_result_verdict import ReportResultVerdict
from .report_summary import ReportSummary
from .request_timeline import RequestTimeline
from .result_document import ResultDocument
from .result_document_state import ResultDocumentState
from .result_document_verdict_type_0 import ResultDocumentVerdictType0
from .results import Results
from .review import Review
from .run_detail import RunDetail
from .run_detail_state import RunDetailState
from .run_detail_verdict_type_0 import RunDetailVerdictType0
from .run_summary import RunSummary
from .run_summary_state import RunSummaryState
from .run_summary_verdict_type_0 import RunSummaryVerdictType0
from .sampling import Sampling
from .saturation import Saturation
from .scope import Scope
from .sensitivity import Sensitivity
from .served_ids import ServedIds
from .served_load import ServedLoad
from .served_load_price_basis import ServedLoadPriceBasis
from .snapshot import Snapshot
from .speedup import Speedup
from .stage_document import StageDocument
from .stage_document_partial_type_0 import StageDocumentPartialType0
from .stage_document_result_type_0 import StageDocumentResultType0
from .stage_failure import StageFailure
from .stage_summary import StageSummary
from .stage_time import StageTime
from .stated_demand import StatedDemand
from .stated_fleet import StatedFleet
from .telemetry import Telemetry
from .text_scores import TextScores
from .token_in import TokenIn
from .token_out import TokenOut
from .traffic import Traffic
from .try_out import TryOut
from .under_load_result import UnderLoadResult
from .uniform_length import UniformLength
from .unit_cost import UnitCost
from .unit_cost_basis import UnitCostBasis
from .unit_cost_key import UnitCostKey
from .unit_economics import UnitEconomics
from .unit_economics_counted import UnitEconomicsCounted
from .upload_file_out import UploadFileOut
from .upload_out import UploadOut
from .upload_out_state import UploadOutState
from .variant_proofs import VariantProofs
from .variant_proofs_failures import VariantProofsFailures
from .verify_result import VerifyResult
from .verify_result_counted import VerifyResultCounted
from .verify_result_plan import VerifyResultPlan
from .verify_result_verdict import VerifyResultVerdict
from .webhook_in import WebhookIn
from .webhook_in_kinds_item import WebhookInKindsItem
from .webhook_out import WebhookOut
from .workload import Workload
from .workload_baseline_runner import WorkloadBaselineRunner
from .workload_out import WorkloadOut

__all__ = (
    "AdmitResult",
    "AdmitResultKind",
    "AnyLoad",
    "AnyLoadRow",
    "Artifact",
    "BaselineResult",
    "Bottleneck",
    "BringUp",
    "BringUpDetail",
    "BringUpStopped",
    "BringUpSummary",
    "Cancellations",
    "Candidate",
    "CandidateCase",
    "CandidateParams",
    "CatalogueEntry",
    "CatalogueEntryKind",
    "Ceilings",
    "CeilingsBasis",
    "CeilingsMatrixTflops",
    "ClosedLoop",
    "ComparedFigure",
    "Comparison",
    "ComparisonRatios",
    "ComposeResult",
    "ComposeResultPlan",
    "Confinement",
    "Constraints",
    "ConstraintsGpuClassesItem",
    "ConstraintsPrecisionsItem",
    "ConstraintsPrefer",
    "CostLine",
    "CostLinePriceBasis",
    "CostLineSpeedBasis",
    "DeleteArtifactStage",
    "DeliveryOut",
    "Demand",
    "Dependents",
    "Deployment",
    "DeploymentMetric",
    "Distribution",
    "DistributionBasis",
    "DistributionPercentiles",
    "Drift",
    "DriftSide",
    "Endpoint",
    "EndpointApi",
    "EndpointRatio",
    "EndpointResult",
    "EndpointRound",
    "Energy",
    "Environment",
    "EnvironmentVersions",
    "EventItem",
    "EventItemDataType0",
    "Events",
    "ExploreResult",
    "Feasibility",
    "FileHash",
    "Finish",
    "FixedLength",
    "Fleet",
    "Gamma",
    "Gap",
    "GapKind",
    "GeneratorLag",
    "Gpu",
    "Interval",
    "LaneSummary",
    "LimitResult",
    "ListRunsStateType0",
    "LoadCurve",
    "LoadedServer",
    "LoadedServerKind",
    "LoadedServerSettings",
    "LoadFailure",
    "LoadMetric",
    "LoadMetricPercentiles",
    "LoadOutcome",
    "LoadOutcomeVerdict",
    "LoadPrice",
    "LoadResult",
    "LoadResultApi",
    "LoadResultVerdictType0",
    "LoadSearch",
    "LoadTokens",
    "LogNormalLength",
    "Machine",
    "MachineCeilings",
    "MachineCeilingsMatrixTflops",
    "MachineLimits",
    "MachineLimitsAbsent",
    "MachineRates",
    "MachineRatesMatrixTflops",
    "MachineVersions",
    "Me",
    "Measure",
    "ModelCost",
    "ModelFile",
    "ModelManifest",
    "ModelManifestConfig",
    "ModelManifestCounted",
    "ModelManifestKind",
    "ModelManifestSource",
    "ModelOut",
    "ModelOutKindType0",
    "ModelRef",
    "NewFile",
    "NewPrice",
    "NewPriceBook",
    "NewReport",
    "NewRun",
    "NewToken",
    "NewUpload",
    "NewUploadHolds",
    "NewWebhook",
    "Objective",
    "ObjectiveDirection",
    "ObjectiveMetric",
    "ObjectiveOutcome",
    "ObjectiveOutcomeVerdict",
    "ObjectiveOutcomeVerdictBefore",
    "OpRow",
    "OpRowBound",
    "PageBringUpSummary",
    "PageDeliveryOut",
    "PageModelOut",
    "PageQuery",
    "PageRecordingOut",
    "PageReportSummary",
    "PageRunSummary",
    "PageTokenOut",
    "PageUploadOut",
    "PageWebhookOut",
    "PageWorkloadOut",
    "PeerTrial",
    "PeerTrialSettings",
    "PlaceInLine",
    "PlanCheck",
    "PlanProfile",
    "PlanTrial",
    "PlanTrialKeepsType0",
    "PlanTrialPlan",
    "Poisson",
    "PredictedFigure",
    "PredictedPlan",
    "Prediction",
    "PredictionBasis",
    "Price",
    "PriceBook",
    "PricePoint",
    "PricePointBasis",
    "PricePointWhat",
    "PriceResult",
    "PriceResultCounted",
    "PriceResultPresentSpeed",
    "PriceResultRatioBasis",
    "ProblemDocument",
    "ProcessMedians",
    "ProfileResult",
    "ProfileResultCasesItem",
    "Quality",
    "QualityCalled",
    "QualityCompared",
    "Race",
    "Rates",
    "RatesMatrixTflops",
    "ReadArtifactStage",
    "ReadPlanResponse",
    "ReadStageStage",
    "Reason",
    "RecordedArrivals",
    "RecordedLength",
    "Recording",
    "RecordingOut",
    "ReportDetail",
    "ReportResult",
    "ReportResultVerdict",
    "ReportSummary",
    "RequestTimeline",
    "ResultDocument",
    "ResultDocumentState",
    "ResultDocumentVerdictType0",
    "Results",
    "Review",
    "RunDetail",
    "RunDetailState",
    "RunDetailVerdictType0",
    "RunSummary",
    "RunSummaryState",
    "RunSummaryVerdictType0",
    "Sampling",
    "Saturation",
    "Scope",
    "Sensitivity",
    "ServedIds",
    "ServedLoad",
    "ServedLoadPriceBasis",
    "Snapshot",
    "Speedup",
    "StageDocument",
    "StageDocumentPartialType0",
    "StageDocumentResultType0",
    "StageFailure",
    "StageSummary",
    "StageTime",
    "StatedDemand",
    "StatedFleet",
    "Telemetry",
    "TextScores",
    "TokenIn",
    "TokenOut",
    "Traffic",
    "TryOut",
    "UnderLoadResult",
    "UniformLength",
    "UnitCost",
    "UnitCostBasis",
    "UnitCostKey",
    "UnitEconomics",
    "UnitEconomicsCounted",
    "UploadFileOut",
    "UploadOut",
    "UploadOutState",
    "VariantProofs",
    "VariantProofsFailures",
    "VerifyResult",
    "VerifyResultCounted",
    "VerifyResultPlan",
    "VerifyResultVerdict",
    "WebhookIn",
    "WebhookInKindsItem",
    "WebhookOut",
    "Workload",
    "WorkloadBaselineRunner",
    "WorkloadOut",
)
