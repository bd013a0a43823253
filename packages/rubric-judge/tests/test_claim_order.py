"""Words in random order state nothing, and no order of English is taken for one."""

import random
import re

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge import ClaimJudge
from rubric_judge.judges.claims.order import is_random, read_order
from rubric_judge.judges.claims.reading import sentences
from rubric_judge.quality.wrong_answers import shuffled

PAGE = (
    "`quantile` computes the value below which a given share of the samples lies. "
    "`method` says how to estimate it where it lies between two samples. "
    "By default `method` is 'linear'. If `axis` is None, the array is flattened before. "
    "By default `overwrite` is False. `quantile` raises ValueError if the share is negative."
)
TERSE = (
    "The body turns food into work, heat and fat; how much goes where depends on eating "
    "and on activity, the largest share being heat. Age, sex, weight and muscle matter; "
    "muscle burns more than fat, so athletes have a higher rate."
)
FIELDS = (
    "- **names** (*char[][]*) -- Names of nuclides.\n- `axis` (int): The axis to use; "
    "default None\n1. Copies the array\n- dimension: Number of cells in each direction."
)
ORDERS = [
    "If the axis is not given, the array is flattened before use.",
    "The array is flattened before use if the axis is not given.",
    "By default, the output is a copy of the input.",
    "The output is a copy of the input by default.",
    "The samples are sorted by the function. The function sorts the samples.",
    "Nodes, edges and weights are kept. Weights, nodes and edges are kept.",
    "Raised is a ValueError where the share is negative.",
    "x = [f(y) for y in z if y > 0]; print(x[0], x[1:])",
    "$S_{ij} = a (b + c) / 2$ where $a$ is the mean, $b$ and $c$ its bounds.",
    "Die Achse ist die Richtung, in der die Werte gezählt werden.",
]


def reward(answer: str) -> float:
    claims = [sentence.rstrip(".") for sentence in sentences(PAGE)]
    task = Task(
        question="What does `quantile` do, and what are `method`, `axis` and `overwrite`?",
        grounding=Grounding(PAGE),
        rubric=Rubric(
            criteria=tuple(
                Criterion(id=f"c{place}", weight=1, description=f"Says that {claim}.")
                for place, claim in enumerate(claims)
            )
        ),
    )
    scores = ClaimJudge().judge_now(task.judge_view(answer)).scores
    assert scores is not None
    return sum(scores.values()) / len(claims)


def test_a_reference_answer_in_random_order_earns_nothing() -> None:
    rewards = [reward(shuffled(PAGE, seed=str(seed))) for seed in range(40)]

    assert reward(PAGE) == 1
    assert sum(rewards) / len(rewards) < 0.03
    assert sum(one >= 0.5 for one in rewards) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_tidied_jumble_of_all_words_earns_nothing(seed: int) -> None:
    words = re.findall(r"[`'\w]+", PAGE.lower())
    random.Random(seed).shuffle(words)
    lines = (" ".join(words[at : at + 12]) for at in range(0, len(words), 12))

    assert reward(". ".join(line.capitalize() for line in lines) + ".") == 0


def test_words_backwards_are_out_of_order_and_sentences_in_another_order_are_not() -> (
    None
):
    backwards = " ".join(
        " ".join(reversed(sentence.rstrip(".").split())) + "."
        for sentence in sentences(PAGE)
    )

    assert reward(backwards) == 0
    assert reward(" ".join(reversed(sentences(PAGE)))) == 1


@pytest.mark.parametrize("text", [PAGE, TERSE, FIELDS, *ORDERS])
def test_no_order_of_english_is_random_nor_what_cannot_be_told(text: str) -> None:
    orders = [read_order(sentence) for sentence in sentences(text)]

    assert not is_random(orders)
    assert not any(is_random([order]) for order in orders)


def test_a_first_word_in_the_middle_stands_there_by_chance() -> None:
    jumble = "300 default By `node_size` is. `node_color` By default is."

    assert is_random([read_order(sentence) for sentence in sentences(jumble)])
    assert not is_random([read_order("It is read in the NOT state AND closed.")])
