"""The one error of this package."""

from collections.abc import Callable, Iterable, Sequence


class ModelRefused(Exception):
    """Why a model is not taken: file, field and reason, as one sentence. `others`: what else is wrong."""

    def __init__(self, file: str, field: str, reason: str, others: Sequence["ModelRefused"] = ()) -> None:
        self.file, self.field, self.reason, self.others = file, field, reason, tuple(others)
        super().__init__(file, field, reason)

    @property
    def reasons(self) -> list[dict[str, str]]:
        """All that is wrong, as `{file, field, reason}`."""
        return [{"file": error.file, "field": error.field, "reason": error.reason} for error in (self, *self.others)]

    def __str__(self) -> str:
        return ". ".join(": ".join(filter(None, reason.values())) for reason in self.reasons)


def refuse(refusals: Sequence[ModelRefused]) -> None:
    """Raises them as one; does nothing where there are none."""
    if refusals:
        first, *others = refusals
        raise ModelRefused(first.file, first.field, first.reason, others)


def run_checks(checks: Iterable[Callable[[], object]]) -> None:
    """Runs every check, and raises what they refuse as one ModelRefused."""
    refusals: list[ModelRefused] = []
    for check in checks:
        try:
            check()
        except ModelRefused as error:
            refusals += [error, *error.others]
    refuse(refusals)
