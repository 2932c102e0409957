"""A request longer than the model takes is refused when the workload is submitted."""

import json
from typing import Any

from tests.workbench.intake.workload_documents import Clients, post
from workbench.accounts.models import User


def test_roberta_takes_fewer_tokens_than_it_has_positions(api: Clients, engineer: User, upload_model: Any) -> None:
    config = {"model_type": "roberta", "architectures": ["RobertaModel"], "hidden_size": 32, "intermediate_size": 64}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10, "max_position_embeddings": 514}
    digest = upload_model(api(engineer), {"config.json": json.dumps(config).encode()}).json()["digest"]
    document = {"model": digest, "objectives": [{"metric": "batch_latency", "limit": 5}]}
    error = post(api(engineer), document | {"traffic": {"prompt_tokens": 513}}).json()["errors"][0]
    assert error["field"] == "traffic.prompt_tokens"
    assert error["reason"].startswith("513 tokens are more than the 512 positions that")
    assert error["reason"].endswith(" has: the first 2 of its 514 positions are kept for padding")
    assert post(api(engineer), document | {"traffic": {"prompt_tokens": 512}}).status_code == 201
