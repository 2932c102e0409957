"""Stages of a model of quantised weights read a directory in bf16, and say so."""

from pathlib import Path

import pytest

from tests.kernels.gguf_files import write_gguf
from tests.workers.conftest import stage_input
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.harness.context import Context, StageError
from workers.harness.plain_model import on_plain_model


def read_from(document: StageInput, context: Context) -> StageFailure:
    return StageFailure(sentence=str(context.model_dir))


def test_a_stage_reads_what_the_first_one_dequantised(tmp_path: Path) -> None:
    document, (source, plain) = stage_input("admit"), (tmp_path / "source", tmp_path / "plain")
    source.mkdir()
    plain.mkdir()
    write_gguf(source / "model.gguf")
    run = on_plain_model(read_from, plain)
    assert run(document, Context(source, tmp_path)).sentence == str(source)
    document.model.quantised = "GGUF (Q8_0, F32)"
    assert run(document, Context(source, tmp_path)).sentence == str(plain)


def test_a_file_that_cannot_be_dequantised_ends_the_stage_with_its_sentence(tmp_path: Path) -> None:
    document, source = stage_input("admit"), tmp_path / "source"
    document.model.quantised = "GGUF (Q8_0, F32)"
    source.mkdir()
    path = write_gguf(source / "model.gguf")
    path.write_bytes(path.read_bytes()[:-1])
    messages: list[Progress] = []
    with pytest.raises(StageError) as caught:
        on_plain_model(read_from, tmp_path / "plain")(document, Context(source, tmp_path, messages.append))
    assert [item.message for item in messages] == ["dequantising the weights, which are GGUF (Q8_0, F32), to bf16"]
    failure = caught.value.failure
    assert failure.refused
    assert (failure.file, "truncated" in failure.sentence) == ("model.gguf", True)
