"""Words carry two floats of 24 bits, or three bf16, or 32 bits, beside their flag."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernels.megakernel.program.exchange import word_shapes
from kernels.megakernel.proof.effects import buffer_sizes
from tests.kernels.megakernel.interpreter import words
from tests.kernels.megakernel.tiny_models import program_of

FLAG_MASK = np.uint64(0xABCD)
FLOATS = st.lists(st.floats(width=32), min_size=8, max_size=8)


@given(FLOATS)
def test_two_floats_keep_16_bits_of_each(values: list[float]) -> None:
    x = np.array(values, dtype=np.float32)
    packed = words.two_floats(x, FLAG_MASK)
    back = words.floats_of(packed)
    assert ((packed & words.FLAG_MASK) == FLAG_MASK).all()
    finite = np.isfinite(x) & (np.abs(x) < 3e38)
    np.testing.assert_allclose(back[finite], x[finite], rtol=2.0**-16, atol=1e-40)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(x))
    np.testing.assert_array_equal(back[np.isinf(x)], x[np.isinf(x)])


@given(FLOATS)
def test_gated_values_are_bf16(values: list[float]) -> None:
    import torch

    x = np.array(values, dtype=np.float32)
    packed = words.eight_gated(x, FLAG_MASK)
    assert ((packed & words.FLAG_MASK) == FLAG_MASK).all()
    np.testing.assert_array_equal(words.gated_of(packed), torch.from_numpy(x).to(torch.bfloat16).float().numpy())


@given(FLOATS)
def test_ordered_numbers_compare_as_floats(values: list[float]) -> None:
    x = np.array(values, dtype=np.float32)
    number = words.ordered(x)
    for i in range(8):
        for j in range(8):
            if x[i] < x[j] or (np.isnan(x[i]) and not np.isnan(x[j])):
                assert number[i] < number[j]
            if x[i] == x[j]:  # zeros of both signs too
                assert number[i] == number[j]


def test_no_layer_of_two_tokens_has_the_same_tag() -> None:
    flags = {int(words.flag_at(step, layer, 16)) for step in range(200) for layer in range(17)}
    assert len(flags) == 200 * 17


def test_no_tag_is_that_of_a_word_never_written() -> None:
    """A split of the keys may come to life after any number of tokens, and its words are zero until then."""
    assert min(int(words.flag_at(step, layer, 16)) for step in range(3850, 3860) for layer in range(17)) == 1


def test_blocks_and_words_are_of_the_same_buffers() -> None:
    program = program_of("llama", batch=2, out_parts=2)
    shapes, blocks = word_shapes(program.shape, program.layout), buffer_sizes(program.shape, program.layout)
    assert set(shapes) == set(blocks)
    of_one = {"qkv": 8, "attention": 8, "attention_state": 2}  # words of a block: of one sequence, or of both
    for name, words_of_block in (of_one | {"out_partials": 2 * 8, "gated": 2 * 4}).items():
        assert np.prod(shapes[name]) == blocks[name] * words_of_block
