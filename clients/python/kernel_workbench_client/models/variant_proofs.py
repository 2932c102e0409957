from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.variant_proofs_failures import VariantProofsFailures


T = TypeVar("T", bound="VariantProofs")


@_attrs_define
class VariantProofs:
    """How many cases of a variant passed the gate, failed it, or were refused by `serves`; a sentence a failure.

    Attributes:
        variant (str):
        op (str):
        passed (int | Unset):  Default: 0.
        failed (int | Unset):  Default: 0.
        refused (int | Unset):  Default: 0.
        failures (VariantProofsFailures | Unset):
        refusal (str | Unset):  Default: ''.
    """

    variant: str
    op: str
    passed: int | Unset = 0
    failed: int | Unset = 0
    refused: int | Unset = 0
    failures: VariantProofsFailures | Unset = UNSET
    refusal: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        variant = self.variant

        op = self.op

        passed = self.passed

        failed = self.failed

        refused = self.refused

        failures: dict[str, Any] | Unset = UNSET
        if not isinstance(self.failures, Unset):
            failures = self.failures.to_dict()

        refusal = self.refusal

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "variant": variant,
                "op": op,
            }
        )
        if passed is not UNSET:
            field_dict["passed"] = passed
        if failed is not UNSET:
            field_dict["failed"] = failed
        if refused is not UNSET:
            field_dict["refused"] = refused
        if failures is not UNSET:
            field_dict["failures"] = failures
        if refusal is not UNSET:
            field_dict["refusal"] = refusal

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.variant_proofs_failures import VariantProofsFailures  # noqa: PLC0415

        d = dict(src_dict)
        variant = d.pop("variant")

        op = d.pop("op")

        passed = d.pop("passed", UNSET)

        failed = d.pop("failed", UNSET)

        refused = d.pop("refused", UNSET)

        _failures = d.pop("failures", UNSET)
        failures: VariantProofsFailures | Unset
        if isinstance(_failures, Unset):
            failures = UNSET
        else:
            failures = VariantProofsFailures.from_dict(_failures)

        refusal = d.pop("refusal", UNSET)

        variant_proofs = cls(
            variant=variant,
            op=op,
            passed=passed,
            failed=failed,
            refused=refused,
            failures=failures,
            refusal=refusal,
        )

        return variant_proofs
