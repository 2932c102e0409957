"""Classes and vectors beside the float32 model's: what is counted as a difference, and what a workload allows."""

import math

import pytest
import torch

from kernels.model.sentence_head import SentenceHead
from kernels.model_files import AnswerKind
from kernels.model_files.sentence_transformers import SentenceModules
from workers.measuring import answers
from workers.measuring.allowed_rises import Tolerances
from workers.measuring.answer_distance import cosine_distance, mean_of_rows

VECTORS, CLASSES = AnswerKind("embeddings", "vectors"), AnswerKind("sequences", "classes")


class Says:
    """A runner whose output for an input is a function of it."""

    def __init__(self, change=lambda output: output):
        self._change = change

    def logits(self, main):
        return self._change(main.clone())


def judged(outputs, change, answer, loss=0.01, before=lambda output: output):
    runners = (Says(), Says(before), Says(change))
    result = answers.compare(runners, outputs, answer, "random tokens", lambda done, needed: True)
    return answers.judge(result, True, None if loss is None else Tolerances.stated(loss))


def vectors(requests=8, tokens=512, width=16):
    return torch.randn(requests, tokens, width, generator=torch.Generator().manual_seed(0)).split(2)


def classes(requests=300, count=3):
    return torch.randn(requests, count, generator=torch.Generator().manual_seed(0)).split(4)


def test_rotated_vectors_are_not_acceptable_and_their_distance_is_the_cosines():
    a, b = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 1.0], [5.0, 0.0]])
    assert cosine_distance(a, b).tolist() == pytest.approx([1 - math.sqrt(0.5), 0.0])

    def rotated(output):
        return output + 0.2 * output.roll(1, -1)

    judgement = judged(vectors(), rotated, VECTORS)
    assert not judgement.acceptable
    assert judgement.change.low > 0.01
    assert judgement.kl_after is None
    assert judged(vectors(), rotated, VECTORS, before=rotated).acceptable


def test_the_vector_of_a_text_is_pooled_as_the_models_files_say():
    """A last token that is turned is hardly seen in the mean of 512."""

    def turned(output):
        output[:, -1] = -output[:, -1]
        return output

    head = SentenceHead(SentenceModules(("lasttoken",))).double()
    runners, given = (Says(), Says(), Says(turned)), vectors()
    for pool, distance in ((mean_of_rows, 0.0), (lambda rows: head(rows[None], torch.ones(1, len(rows)).long()), 2.0)):
        result = answers.compare(runners, given, VECTORS, "random tokens", lambda done, needed: True, pool)
        assert result.after.pooled == pytest.approx([distance] * 8, abs=0.02)


def test_one_wrong_value_among_many_or_longer_vectors_of_the_same_direction_are_not_acceptable():
    def damaged(output):
        output[0, 0, 0] += 3
        return output

    judgement = judged(vectors(), damaged, VECTORS)
    assert judgement.change.high < 0.01
    assert judgement.measures[3].after > answers.largest_error(0.01)
    assert not judgement.acceptable
    judgement = judged(vectors(), lambda output: 1.5 * output, VECTORS)
    assert judgement.measures[0].after == pytest.approx(0, abs=1e-12)
    assert not judgement.acceptable


def test_another_box_is_not_acceptable_though_its_logits_are_right():
    def moved(output):
        output[0, 0, -1] += 1
        return output

    outputs = [torch.cat([10 * vector[..., :12], vector[..., 12:].sigmoid()], -1) for vector in vectors()]
    judgement = judged(outputs, moved, VECTORS._replace(boxes=4))
    assert judgement.change.high < 0.01
    assert judgement.measures[3].after == 0
    assert judgement.measures[4].after > 0.9
    assert not judgement.acceptable
    assert judged(outputs, moved, VECTORS).acceptable, "a coordinate is small beside logits"


def test_vectors_of_few_requests_are_no_proof_however_many_they_are():
    judgement = judged(vectors(requests=4, tokens=2048), lambda output: output, VECTORS)
    assert (judgement.tokens, judgement.needed) == (4 * 2048, answers.MIN_REQUESTS * 2048)
    assert "acceptable so far. 8,192 of the 65,536 vectors" in judgement.sentence
    judgement = judged(vectors(requests=32, tokens=128), lambda output: output, VECTORS)
    assert (judgement.tokens, judgement.needed) == (4096, 4096)


def test_another_class_in_one_of_twenty_is_not_acceptable():
    outputs = classes()
    changed = iter(range(len(outputs)))

    def change(output):
        return output.flip(-1) if next(changed) % 20 == 0 else output

    judgement = judged(outputs, change, CLASSES)
    assert 0.02 < judgement.top1_after < 0.1
    assert not judgement.acceptable


def test_a_shift_of_the_probabilities_that_keeps_every_class_is_not_acceptable():
    """Neither the classes nor the largest error see it: logits grow by a tenth, and the limit is 14 %."""
    judgement = judged(classes(), lambda output: 1.1 * output, CLASSES)
    assert judgement.change.high == 0
    assert judgement.measures[-1].after < answers.largest_error(0.01)
    assert judgement.kl_change.high > 0.001
    assert not judgement.acceptable
    assert f"{judgement.kl_change.high:.2g} nats by its 95 % interval" in judgement.sentence
    assert "1 % of answers, 0.001 nats and 14 % of the largest value are allowed" in judgement.sentence
    assert judged(classes(), lambda output: 1.02 * output, CLASSES).acceptable


def test_a_single_score_is_judged_by_its_value():
    judgement = judged(classes(count=1), lambda output: output + 0.5, CLASSES)
    assert not judgement.acceptable
    assert [measure.name for measure in judgement.measures] == ["Largest error of a logit"]
    assert "most likely" not in judgement.sentence
    assert "14 % of the largest value are allowed" in judgement.sentence
    assert judged(classes(count=1), lambda output: output * 1.01, CLASSES).acceptable


@pytest.mark.parametrize(("outputs", "answer"), [(vectors(), VECTORS), (classes(), CLASSES)])
@pytest.mark.parametrize("loss", [0.01, None])
def test_values_that_are_no_numbers_never_pass(outputs, answer, loss):
    judgement = judged(outputs, lambda output: output * float("nan"), answer, loss)
    assert not judgement.acceptable
    assert "after are no numbers" in judgement.sentence


def test_the_labels_of_a_text_are_one_answer_and_too_few_answers_are_admitted():
    labels = torch.randn(10, 32, 3, generator=torch.Generator().manual_seed(0)).split(2)
    judgement = judged(labels, lambda output: output, CLASSES)
    assert "acceptable so far. 10 of the 300 answers" in judgement.sentence
    judgement = judged(labels, lambda output: output * float("nan"), CLASSES)
    assert "10 answers after are no numbers" in judgement.sentence
    judgement = judged(classes(requests=40), lambda output: output, CLASSES)
    assert judgement.tokens < judgement.needed
    assert "acceptable so far. 40 of the 300 answers" in judgement.sentence


def test_the_interval_is_of_texts_whose_labels_change_together():
    labels = torch.randn(300, 32, 3, generator=torch.Generator().manual_seed(0)).split(1)
    changed = iter(range(len(labels)))
    judgement = judged(labels, lambda output: output.flip(-1) if next(changed) < 3 else output, CLASSES)
    assert judgement.tokens == 300
    assert judgement.change.high - judgement.change.low > 0.01
