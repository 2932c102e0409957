"""Which of tensor parallelism and replicas is predicted to keep a promise cheapest, on the same GPUs."""

import pytest

from kernels.model_files import catalogue
from tests.workers.conftest import manifest
from workers.cost import arrangements
from workers.documents.prices import default_price_book
from workers.documents.workload import Workload
from workers.prediction.predict import predict_run


def said(users=32, gpu_class="h200x4", fewest=1, name="llama-3.1-8b", **promise: object) -> str:
    sla = {
        "model": name,
        "traffic": {"prompt_tokens": 128, "output_tokens": 64},
        "objectives": [{"metric": "tpot", "percentile": 50, "limit": 6} | promise],
        "constraints": {"gpu_classes": [gpu_class], "precisions": ["bf16"]},
        "load": {"most_users": users},
    }
    workload, model = Workload.model_validate(sla), manifest(catalogue.entry(name)[0])
    prediction = predict_run(workload, model, gpu_class, {})
    return arrangements.sentence(workload, prediction, default_price_book(), gpu_class, fewest)


@pytest.mark.parametrize(
    ("limit", "listed", "best"),
    [
        (9, "one engine over one GPU (6.54 ms, $4.18 an hour); one engine over 2 GPUs (", (1, 1)),
        (6, "2 replicas of one GPU each (5.14 ms, $8.36 an hour); one engine over 2 GPUs (4.16 ms, ", (2, 1)),
        (3.6, "32 replicas of one GPU each (3.52 ms", (4, 1)),
    ],
)
def test_replicas_and_tensor_parallelism_are_held_against_each_other(
    limit: float, listed: str, best: tuple[int, int]
) -> None:
    sentence = said(limit=limit)
    assert listed in sentence
    size = "one GPU" if best[0] == 1 else f"{best[0]} GPUs"
    options = f"--tensor-parallel-size {best[0]} --data-parallel-size {best[1]}"
    assert sentence.endswith(f" The fewest GPUs: one engine over {size} (kernels serve {options}).")


def test_more_users_than_an_engine_serves_take_replicas_of_the_same_and_a_mixture_is_sharded_too() -> None:
    assert "16 replicas of 4 GPUs each" in said(users=128, limit=2)
    assert "neither tensor parallelism nor replicas serve 32 users" in said(limit=0.5)
    sentence = said(users=2, name="qwen3-30b-a3b", limit=2)
    assert "one engine over 2 GPUs (1.76 ms" in sentence
    assert "--tensor-parallel-size 2 --data-parallel-size 1" in sentence.rpartition(". ")[2]


def test_what_several_gpus_hold_has_no_replicas_of_one_and_the_time_of_the_first_token_is_unknown() -> None:
    assert "one GPU" not in said(fewest=2)
    assert said(fewest=4) == ""
    assert "2 replicas of one GPU each (329 ms" in said(metric="e2e", limit=400)
    assert said(metric="ttft", limit=300) == ""
    assert said(gpu_class="h200") == ""
