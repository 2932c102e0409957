"""The one error of this package."""


class ModelRefused(Exception):
    """Why a model is not taken: the file, the field in it, and the reason, as one sentence."""

    def __init__(self, file: str, field: str, reason: str) -> None:
        self.file, self.field, self.reason = file, field, reason
        super().__init__(file, field, reason)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.field, self.reason) if part)
