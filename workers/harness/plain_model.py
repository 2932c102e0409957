"""Has a stage read a model of quantised weights as a directory in bf16, which is written once for a run."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from kernels.dequantising import plain_model
from kernels.model_files import ModelRefused
from workers.documents.stages import StageInput
from workers.harness.context import Context, StageError


def on_plain_model(
    run: Callable[[StageInput, Context], BaseModel], folder: Path
) -> Callable[[StageInput, Context], BaseModel]:
    """The stage's function over a model whose weights are dequantised into `folder`, unless they are there."""

    def run_it(document: StageInput, context: Context) -> BaseModel:
        if quantised := document.model.quantised:
            if not folder.exists():
                context.report_progress(0, f"dequantising the weights, which are {quantised}, to bf16")
            try:
                context.model_dir = plain_model(context.model_dir, folder)
            except ModelRefused as error:
                raise StageError(str(error), refused=True, file=error.file, field=error.field) from error
        return run(document, context)

    return run_it
