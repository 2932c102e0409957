"""Generated weights, uploads, facts and refusals."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from kernels import runners
from kernels.model import weights, written_model
from kernels.model.loading import configuration
from kernels.model.written_model import TOKENIZER_FOLDER
from kernels.model_files import catalogue
from kernels.model_files.digests import model_digest
from tests.kernels.runners.engine_models import CONFIGS

PINNED = [-0.021143360063433647, 0.10571679472923279, -0.08964784443378448]


def load(config: dict[str, Any], seed: int = 0, dtype: str = "fp32") -> Any:
    return runners.load(None, config, seed=seed, generated=True, dtype=dtype, device="cpu")


def test_a_seed_always_gives_the_same_weights_which_do_not_repeat() -> None:
    """A change of pinned values changes every generated model: raise GENERATOR_VERSION with it."""
    one, two, other = (load(CONFIGS["llama"], seed) for seed in (1, 1, 2))
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name
    assert not torch.equal(one.model.embed_tokens.weight, other.model.embed_tokens.weight)
    weight = load(CONFIGS["llama"]).model.layers[1].mlp.up_proj.weight
    assert weights.GENERATOR_VERSION == 1
    assert weight.flatten()[:3].tolist() == PINNED
    config = CONFIGS["llama"] | {"vocab_size": 40_000}
    table = load(config).model.embed_tokens.weight.flatten()
    first, second = table[: weights.BLOCK], table[weights.BLOCK : 2 * weights.BLOCK]
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 0.01


def test_values_do_not_depend_on_the_arithmetic_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's 64-bit integer form of the hash, run on the CPU, gives the same bits, however much it fills at once."""
    monkeypatch.setattr(weights, "TOGETHER", 1 << 19)
    one, two = (torch.empty(1500, 1000) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        weights._fill_tensor(one, "key", 0.01, pool)
    weights._fill_box(two, one.shape, (0, 0), "key", 0.01)
    assert torch.equal(one, two)


@pytest.mark.gpu
def test_cpu_and_gpu_generate_the_same_bits() -> None:
    here = load(CONFIGS["qwen2"], dtype="bf16").state_dict()
    there = runners.load(None, CONFIGS["qwen2"], generated=True, dtype="bf16", device="cuda").state_dict()
    for name, value in here.items():
        assert torch.equal(value, there[name].cpu()), name


@pytest.mark.parametrize("name", ["llama", "granite", "gemma2", "smollm3", "gpt-oss", "gpt2", "bert"])
def test_generated_weights_are_finite_and_give_lively_logits(name: str) -> None:
    model = load(CONFIGS[name])
    ids = torch.randint(3, 300, (1, 24), generator=torch.Generator().manual_seed(0))
    logits = model(input_ids=ids).logits
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert 0.5 < logits.std() * getattr(model.config, "logits_scaling", 1) < 5


def test_a_parameter_without_elements_is_left_as_it_is() -> None:
    """YOLOS has position embeddings between its layers, none where it has one layer."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = load({"model_type": "yolos", "architectures": ["YolosForObjectDetection"], "image_size": [32, 32]} | sizes)
    assert 0 in [parameter.numel() for parameter in model.parameters()]
    assert torch.isfinite(model(pixel_values=torch.zeros(1, 3, 32, 32)).logits).all()


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_an_upload_is_loaded_from_its_safetensors(name: str, tmp_path: Path) -> None:
    original = load(CONFIGS[name], seed=9)
    original.save_pretrained(tmp_path)
    loaded = runners.load(tmp_path, CONFIGS[name], dtype="fp32", device="cpu")
    for key, value in original.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[key]), key
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"dtype": "torch.float16"}, "dtype", torch.float16),
        ({"pad_token_id": 10**6}, "pad_token_id", None),
        ({"attention_dropout": {"__float__": "Infinity"}}, "attention_dropout", math.inf),
    ],
)
def test_fields_in_other_spellings_are_read(change: dict[str, Any], field: str, value: Any) -> None:
    config = CONFIGS["llama"] | change
    assert getattr(configuration(config), field) == value
    assert runners.describe(config).kind == "decoder"


def test_replicas_of_one_host_share_the_memory_of_the_weights(tmp_path: Path) -> None:
    """Weights are pages of the file, which the kernel reads once for all processes that map it."""
    runners.load(None, CONFIGS["llama"], generated=True, dtype="bf16", device="cpu").save_pretrained(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    model = runners.load(tmp_path, CONFIGS["llama"], dtype="bf16", device="cpu")
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(file))]
    places = [[int(at, 16) for at in fields[0].split("-")] for fields in maps]
    assert all(
        any(begin <= parameter.data_ptr() < end for begin, end in places)
        for parameter in model.model.layers.parameters()
    )


def test_files_that_are_not_the_configurations_weights_are_refused(tmp_path: Path) -> None:
    load(CONFIGS["llama"]).save_pretrained(tmp_path)
    deeper = CONFIGS["llama"] | {"num_hidden_layers": 4}
    with pytest.raises(ValueError, match=r"lack 9 tensors of LlamaForCausalLM, first model\.layers\.3\.input"):
        runners.load(tmp_path, deeper, dtype="fp32", device="cpu")
    with pytest.raises(ValueError, match="the tensors cannot be loaded"):
        runners.load(tmp_path, CONFIGS["llama"] | {"intermediate_size": 200}, dtype="fp32", device="cpu")
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.down_proj.weight"
    tensors |= {name: tensors[name].to(torch.float8_e4m3fn), f"{name}_scale": torch.ones(())}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="the weights are quantised"):
        runners.load(tmp_path, CONFIGS["llama"], dtype="fp32", device="cpu")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "model_type is missing"),
        ({"model_type": "nonesuch"}, "'nonesuch' is not an architecture that transformers knows"),
        (CONFIGS["llama"] | {"architectures": ["GPT2LMHeadModel"]}, "is no llama model"),
        (CONFIGS["llama"] | {"hidden_size": 66}, "config.json: .*66"),
        (CONFIGS["llama"] | {"num_hidden_layers": "many"}, "config.json: .*num_hidden_layers"),
    ],
)
def test_a_configuration_that_cannot_be_built_says_why(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        runners.describe(config)


def test_facts_of_known_models_and_of_no_other() -> None:
    llama = runners.describe(catalogue.entry("llama-3.2-1b")[0])
    assert (llama.kind, llama.parameters, llama.weight_bytes) == ("decoder", 1_235_814_400, 2_471_628_800)
    assert llama.kv_bytes_per_token == 2 * 16 * 8 * 64 * 2
    assert runners.describe(catalogue.entry("qwen2.5-1.5b")[0]).parameters == 1_543_714_304
    assert runners.describe(catalogue.entry("tiny-bert")[0]).kind == "encoder"
    assert runners.describe({"model_type": "t5", "d_model": 64, "vocab_size": 100}).kind == "other"
    stages = {"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"]}
    assert runners.describe(stages | {"num_attention_heads": [1, 2, 5, 8]}).kind == "other"
    with pytest.raises(KeyError, match=r"no catalogue model 'gpt-5'; there are llama-3\.2-1b"):
        catalogue.entry("gpt-5")


@pytest.mark.parametrize("name", catalogue.names())
def test_every_catalogue_entry_can_be_built(name: str) -> None:
    config, summary = catalogue.entry(name)
    facts = runners.describe(config)
    assert facts.architecture == config["architectures"][0]
    assert summary


def test_describing_a_configuration_leaves_it_as_it_is() -> None:
    """transformers writes into nested settings; a model's digest covers its configuration."""
    config = CONFIGS["llama"] | {"rope_theta": 10_000.0, "rope_scaling": dict(CONFIGS["llama"]["rope_scaling"])}
    before = model_digest(config, (), generated=True)
    runners.describe(config)
    assert model_digest(config, (), generated=True) == before


@pytest.mark.parametrize("kind", ["llama", "qwen2"])  # for qwen2, transformers takes a class of its own
def test_each_word_is_one_id(kind, tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = AutoConfig.for_model(kind, num_hidden_layers=1, vocab_size=50, **sizes)
    folder = tmp_path / "model"
    written_model.write(AutoModelForCausalLM.from_config(config), folder, ["time", "year"])
    tokenizer = AutoTokenizer.from_pretrained(folder / TOKENIZER_FOLDER)
    assert tokenizer("year time t49 else").input_ids == [1, 0, 49, 0]
    assert tokenizer.decode([1, 0, 49]).split() == ["year", "time", "t49"]
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3"])
def test_a_model_that_fits_on_no_device_is_written_layer_by_layer(name, tmp_path, monkeypatch):
    """The files hold what is generated whole, bit by bit. Threads stand in for the processes, which start slowly."""
    monkeypatch.setattr(written_model, "ProcessPoolExecutor", lambda count, _: ThreadPoolExecutor(count))
    config = catalogue.entry(name)[0]
    written_model.write_generated(config, tmp_path / "model", ["cpu", "cpu"], "bf16", seed=2)
    read = runners.load(tmp_path / "model", config, dtype="bf16", device="cpu")
    whole = runners.load(None, config, seed=2, generated=True, dtype="bf16", device="cpu")
    expected = dict(whole.named_parameters())
    assert [own for own, _ in read.named_parameters()] == list(expected)
    assert all(torch.equal(parameter, expected[own]) for own, parameter in read.named_parameters())
    assert AutoTokenizer.from_pretrained(tmp_path / "model" / TOKENIZER_FOLDER)("t7").input_ids == [7]
