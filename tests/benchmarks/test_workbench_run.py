"""What a kept run of the workbench says of its SLA."""

from pathlib import Path

import pytest

from benchmarks import workbench_run
from workbench.cli.errors import CliError

FOLDER = Path(__file__).parents[2] / "benchmarks" / "h200"


def test_the_sla_is_said_in_a_line_whose_end_the_example_reads_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    document = workbench_run.stated(FOLDER / "flagship.yaml", 7.5, ["compiled"])
    text = workbench_run.summary(document)
    assert text.startswith("TTF64 p50 at most 100 ms, 128-token prompt, 64 output tokens, batch 1, without compiled")
    assert float(text.rpartition("minutes: ")[2]) == 7.5
    under_load = FOLDER / "load.yaml"
    assert "up to 64 users; minutes: 8" in workbench_run.summary(workbench_run.stated(under_load, None, []))
    assert "users, before vllm; minutes" in workbench_run.summary(workbench_run.stated(under_load, None, [], "vllm"))
    wrong = tmp_path / "sla.yaml"
    wrong.write_text("objectives: [{metric: ttf_n, limit: 1}]\n")
    with pytest.raises(CliError, match="needs n"):
        workbench_run.stated(wrong, None, [])
