"""Answers are asked for once, kept, and never another model's."""

import resource
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

import pytest

from rubric_core import Ask, Decoding, Reason, Reply, ResponderError, Task
from rubric_eval.answers.collecting import stream_answers
from rubric_eval.answers.store import read_answers
from rubric_eval.errors import EvalWriteError
from rubric_eval.records.files import AnswerRow
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.opening import OpenModel

GREEDY = Decoding()


async def _collected(
    model: OpenModel, tasks: Sequence[Task], path: Path, **how: object
) -> dict[int, list[AnswerRow]]:
    """Answers by seed, in the order of the questions and samples."""
    given = {"decoding": GREEDY, "seeds": (0, 1), "samples": 2, **how}
    stream = stream_answers(model, tasks, folder=EvalFolder(path), **given)  # pyright: ignore[reportArgumentType]
    found: dict[int, list[AnswerRow]] = {}
    async with aclosing(stream):
        async for seed, row in stream:
            found.setdefault(seed, []).append(row)
    place = {task.task_id: number for number, task in enumerate(tasks)}
    for rows in found.values():
        rows.sort(key=lambda row: (place[row.task_id], row.sample))
    return found


def _unavailable(answers: dict[int, list[AnswerRow]]) -> list[AnswerRow]:
    return [row for rows in answers.values() for row in rows if row.text is None]


@pytest.mark.anyio
async def test_every_answer_is_there_once_in_the_order_of_the_questions(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    answers = await _collected(model, tasks, tmp_path)

    assert set(answers) == {0, 1}
    for rows in answers.values():
        assert [(row.task_id, row.sample) for row in rows] == [
            (task.task_id, sample) for task in tasks for sample in range(2)
        ]
    assert (
        len({ask.seed for ask in responder.asked}) == 20
    )  # each draw has a seed of its own
    assert read_answers(EvalFolder(tmp_path).answers("model", 1))
    assert _unavailable(answers) == []


@pytest.mark.anyio
async def test_a_second_run_asks_for_nothing_and_gives_the_same(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    first = await _collected(model, tasks, tmp_path)
    file = EvalFolder(tmp_path).answers("model", 0)
    written = file.read_bytes()
    again = await _collected(model, tasks, tmp_path)

    assert len(responder.asked) == 20
    assert again == first
    assert file.read_bytes() == written


@pytest.mark.parametrize(
    "how",
    [
        {"decoding": Decoding(temperature=0.5)},
        {"decoding": Decoding(top_p=0.5)},
        {"decoding": Decoding(top_k=3)},
        {"decoding": Decoding(stop=("x",))},
        {"decoding": Decoding(max_tokens=7)},
        {"seeds": (2, 3)},
    ],
)
@pytest.mark.anyio
async def test_no_answer_of_another_decoding_or_seed_is_taken(
    how: dict[str, object],
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    await _collected(model, tasks, tmp_path)
    await _collected(model, tasks, tmp_path, **how)
    assert len(responder.asked) == 40


@pytest.mark.anyio
async def test_no_answer_of_another_model_is_taken_even_under_the_same_name(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    base, _ = make_model("base")
    tuned, responder = make_model("tuned")
    await _collected(base, tasks, tmp_path)
    answers = await _collected(tuned, tasks, tmp_path)

    assert len(responder.asked) == 20
    assert all((row.text or "").startswith("tuned") for row in answers[0])


@pytest.mark.anyio
async def test_more_samples_and_questions_ask_for_the_new_ones_alone(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    await _collected(model, tasks[:3], tmp_path, samples=1)
    await _collected(model, tasks, tmp_path, samples=3)
    assert len(responder.asked) == 6 + (5 * 3 * 2 - 6)


@pytest.mark.anyio
async def test_failures_are_rows_and_are_asked_for_again(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model(fails=lambda number: number % 3 == 0)
    first = await _collected(model, tasks, tmp_path)
    failed = _unavailable(first)
    assert len(failed) == 7
    assert {row.reason for row in failed} == {Reason.CONNECTION}

    again = await _collected(model, tasks, tmp_path)
    assert len(responder.asked) == 20 + 7
    assert len(_unavailable(again)) == 2  # numbers 21 and 24 fail

    await _collected(model, tasks, tmp_path)
    for seed in (0, 1):
        rows = read_answers(EvalFolder(tmp_path).answers("model", seed))
        assert len(rows) == 10  # the last word on each, however often it was asked


@pytest.mark.anyio
async def test_two_tasks_with_one_question_share_its_answer(
    make_model: Callable[..., tuple[OpenModel, object]],
    make_task: Callable[..., Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    twins = [make_task(1, document=1), make_task(1, document=2)]
    await _collected(model, twins[:1], tmp_path, seeds=(0,), samples=1)
    answers = await _collected(model, twins, tmp_path, seeds=(0,), samples=1)

    first, second = answers[0]
    assert len(responder.asked) == 1
    assert first.text == second.text
    assert first.key == second.key
    assert first.doc_hash != second.doc_hash
    assert len(read_answers(EvalFolder(tmp_path).answers("model", 0))) == 2


@pytest.mark.anyio
async def test_questions_have_seeds_of_their_own_and_models_the_same_ones(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    (base, one), (tuned, other) = make_model("base"), make_model("tuned")
    await _collected(base, tasks, tmp_path / "a")
    await _collected(tuned, tasks[::-1], tmp_path / "b")
    assert {ask.view.task_id: ask.seed for ask in one.asked} != {}
    seeds = [
        {(ask.view.question, ask.seed) for ask in each.asked} for each in (one, other)
    ]
    assert seeds[0] == seeds[1]


@pytest.mark.anyio
async def test_nothing_kept_or_asked_holds_a_passage_or_a_criterion(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    await _collected(model, tasks, tmp_path)
    files = [EvalFolder(tmp_path).answers("model", seed) for seed in (0, 1)]
    texts = [path.read_text("utf-8") for path in files]
    assert len(texts) == 2
    assert not any("CANARY" in text for text in [*texts, repr(responder.asked)])


@pytest.mark.anyio
async def test_a_stream_that_is_left_keeps_what_it_gave(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    folder = EvalFolder(tmp_path)
    async with aclosing(
        stream_answers(model, tasks, folder=folder, decoding=GREEDY)
    ) as stream:
        given = [await anext(stream), await anext(stream)]
    assert read_answers(folder.answers("model", 0)) == [row for _, row in given]
    await _collected(model, tasks, tmp_path, seeds=(0,), samples=1)
    assert len(responder.asked) == 5


@pytest.mark.anyio
class _Odd:
    """Gives a reply twice, or leaves one out."""

    identity: ClassVar[dict[str, str]] = {}

    def __init__(self, *, indices: Sequence[int]) -> None:
        self._indices = indices

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        del asks, decoding
        for index in self._indices:
            yield index, Reply.answered("text")

    async def aclose(self) -> None:
        return


@pytest.mark.parametrize(
    ("indices", "what"),
    [
        ((0, 1, 1), "replied to question 1"),
        ((0, 1, 2), "no reply to 2 of 5"),
        ((9,), "question 9"),
    ],
)
@pytest.mark.anyio
async def test_a_responder_is_held_to_one_reply_for_each_question(
    indices: tuple[int, ...],
    what: str,
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, _ = make_model()
    odd = OpenModel(model.entry, _Odd(indices=indices))
    with pytest.raises(ResponderError, match=what):
        await _collected(odd, tasks, tmp_path, seeds=(0,), samples=1)


@pytest.mark.anyio
async def test_a_full_disk_is_one_clear_error_and_loses_nothing(
    make_model: Callable[..., tuple[OpenModel, object]],
    tasks: list[Task],
    tmp_path: Path,
) -> None:
    model, responder = make_model()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # two rows and a half
    try:
        with pytest.raises(
            EvalWriteError, match=r"File too large.*2 answers.*the same command"
        ):
            await _collected(model, tasks, tmp_path, seeds=(0,), samples=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    path = EvalFolder(tmp_path).answers("model", 0)
    assert path.read_bytes().endswith(b"}\n")  # a small file
    answers = await _collected(model, tasks, tmp_path, seeds=(0,), samples=1)
    assert len(answers[0]) == 5
    assert _unavailable(answers) == []
    assert len(responder.asked) == 3 + 3
