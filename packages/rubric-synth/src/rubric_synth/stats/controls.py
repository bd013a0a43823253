"""Answers that should not score well, and what they do score: how far a rubric can be gamed.

Printed beside every dataset, because a reward is only worth training on if an answer that knows
nothing earns much less of it than the reference answer.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from statistics import fmean
from typing import NamedTuple

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import Judge, JudgeResult, JudgeView, Task
from rubric_judge import JudgePool
from rubric_judge.judges.capabilities import Immediate
from rubric_judge.quality.context_answers import context_start, nearest_sentences
from rubric_judge.quality.labels import written
from rubric_judge.quality.wrong_answers import (
    CONTROLS,
    fixed_template,
    keyword_spam,
    negated,
    other_references,
    shuffled,
)
from rubric_judge.ui.page.tables import counted
from rubric_synth import language, tables

WRITTEN = tuple(written.CONTROLS.values())
"""Names of the controls that somebody has to write."""

OF_CONTEXT = ("context_start", "nearest_sentences")
"""Names of the controls that only open-book tasks have."""
_Words = Mapping[str, Sequence[str]]
"""Usual words of each kind of criterion."""


class ControlAnswer(NamedTuple):
    """Answer of a control to a task."""

    control: str
    """Name of the control."""
    task: Task
    """The task."""
    text: str
    """The answer."""


OF_PASSAGE = ("passage_start",)
"""Names of the controls whose answers are parts of a passage, which only a judge may see."""
_WARNINGS: dict[str, str] = tables.read_table("control_warnings")
_OVERPAID_FRAC = 0.5
"""Share of the reference's reward from which a wrong answer is overpaid; any text about the subject
picks up less."""
_OTHER_REFERENCE = "other_reference"
_PATTERNS = tables.patterns("controls")
_MOST_TERMS = 12
"""As many as a sentence can hold and still read as one."""
_FEWEST_TERMS = 5


def usual_terms(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Return the words that each kind of criterion expects most often, the most frequent first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        for criterion in task.rubric:
            kind = criterion.id.rstrip("_0123456789")
            terms = (*criterion.required_elements, *criterion.expected_keywords)
            words = [term.lower() for term in terms if term.isalpha()]
            counts[kind].update(words)
    return {
        kind: [word for word, _ in counter.most_common(20)]
        for kind, counter in counts.items()
    }


def learned_template(question: str, usual: _Words) -> str:
    """Return one form for all, with the question's names and the dataset's usual words.

    It is what a policy could learn without reading: it knows which words rubrics like, and
    nothing of the passage.

    Args:
        question: The question.
        usual: The words that `usual_terms` returns.
    """
    names = [f"`{name}`" for name in _PATTERNS["named"].findall(question)]
    points: list[str] = []
    if match := _PATTERNS["points"].search(question):
        for number, point in enumerate(re.split(r", | and ", match[1])):
            phrase = _phrase(usual, "supporting_point", turn=number)
            points.append(f"The {point} is {phrase}.")
    if len(names) > 1:
        return _learned_api_answer(names, points, usual)
    subject = _subject(question, names)
    central_idea = _phrase(usual, "central_idea")
    limitation = _phrase(usual, "limitation")
    sentences = [
        f"The {subject} is {central_idea}.",
        *points,
        f"However, {limitation} must not be used in all of these cases.",
    ]
    return " ".join(sentences)


def _subject(question: str, names: Sequence[str]) -> str:
    """Return the first name of a question, or its second and third content word."""
    if names:
        return names[0]
    words = language.content_words(question)[1:3]
    return " ".join(words) or "subject"


def _learned_api_answer(
    names: Sequence[str],
    points: Sequence[str],
    usual: _Words,
) -> str:
    """Return the form for a question on a function and its parameters.

    Args:
        names: The function and its parameters, as code.
        points: Sentences on the points that the question asks for.
        usual: The words that `usual_terms` returns.
    """
    function, *parameters = names
    purpose = _phrase(usual, "purpose")
    sentences = [f"{function} is used to compute {purpose}."]
    for number, parameter in enumerate(parameters):
        meaning = _phrase(usual, "parameter", turn=number)
        sentences.append(f"It takes {parameter} as {meaning}.")
    returns = _phrase(usual, "returns")
    sentences.append(f"It returns {returns}.")
    sentences.extend(points)
    caveat = _phrase(usual, "caveat")
    sentences.append(f"Note that {caveat} must not be used if it is not the default.")
    return " ".join(sentences)


def _phrase(
    usual: _Words,
    kind: str,
    *,
    turn: int = 0,
) -> str:
    """Join the most usual words of a kind as a phrase, each turn in another order."""
    terms = deque(usual.get(kind, ())[:_MOST_TERMS])
    if len(terms) < _FEWEST_TERMS:
        return "the value of an input"
    terms.rotate(turn)
    words = list(terms)
    pairs = zip(words[::2], words[1::2], strict=False)
    parts = [f"the {first} of {second}" for first, second in pairs]
    return language.listed(parts)


class ControlRewards(NamedTuple):
    """Rewards of the controls."""

    controls: dict[str, float]
    """Mean reward in [0, 1] by name in `CONTROLS`, of each control with a judged answer."""
    control_failures: int
    """Answers that could not be judged."""
    written_answers: dict[str, int]
    """Number of questions with a written answer, by control; the other controls answer all."""


def described(name: str, counts: Mapping[str, int]) -> str:
    """Return what a control is, and for how many questions where not for all.

    Args:
        name: Name of the control; the description is empty where it is not in `CONTROLS`.
        counts: Number of questions that have a written answer, by control.
    """
    description = CONTROLS.get(name, "")
    if name in counts:
        description += f", for {counted(counts[name], 'question')}"
    return description


def overpaid(rewards: Mapping[str, float]) -> dict[str, str]:
    """Return the wrong answers that earn at least half of what the reference earns, and a warning.

    Args:
        rewards: Mean reward of each control.
    """
    reference = rewards.get("reference", 0.0)
    if reference <= 0:
        return {}
    warnings: dict[str, str] = {}
    for name, meaning in _WARNINGS.items():
        reward = rewards.get(name, 0.0)
        if reward < _OVERPAID_FRAC * reference:
            continue
        warnings[name] = (
            f"{CONTROLS[name]}: {100 * reward:.1f} %, where the reference earns "
            f"{100 * reference:.1f} %; {meaning}"
        )
    return warnings


async def control_rewards(
    tasks: Sequence[Task],
    judge: Judge | Sequence[Judge],
    answered: tuple[Sequence[Task], written.KnownAnswers] | None = None,
    *,
    on_reward: Callable[
        [ControlAnswer, float | None], None
    ] = lambda _answer, _reward: None,
) -> ControlRewards:
    """Return the mean reward of each control over the tasks.

    Args:
        tasks: At least one task; tasks of a single document have no other reference answer.
        judge: Scores the answers, many at a time; or several replicas of one.
        answered: Tasks that somebody has written right and false answers to, and these answers.
        on_reward: Called with each answer and its reward, None where it could not be judged.

    Raises:
        JudgeSetupError: The judge is not there.
    """
    answers = [
        ControlAnswer(name, task, texts[task.task_id])
        for name, texts in answers_of(tasks).items()
        for task in tasks
    ]
    counts: dict[str, int] = {}
    if answered is not None:
        answered_tasks, known = answered
        for name, texts in known.controls.items():
            written_answers = [
                ControlAnswer(name, task, texts[task.task_id])
                for task in answered_tasks
                if task.task_id in texts
            ]
            answers += written_answers
            counts[name] = len(written_answers)
    results = await _judge_all(_views(answers), judge)
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    failures = 0
    for answer, result in zip(answers, results, strict=True):
        if result.outcome is rubric_core.Outcome.UNAVAILABLE:
            failures += 1
            on_reward(answer, None)
        else:
            reward = rubric_core.normalized_reward(result, answer.task.rubric)
            rewards[answer.control].append(reward)
            on_reward(answer, reward)
    means = {name: fmean(rewards[name]) for name in CONTROLS if name in rewards}
    return ControlRewards(
        controls=means,
        control_failures=failures,
        written_answers=counts,
    )


def _views(answers: Sequence[ControlAnswer]) -> list[JudgeView]:
    """Return the answers as a judge sees them."""
    empty_views: dict[str, JudgeView] = {}
    views: list[JudgeView] = []
    for _control, task, text in answers:
        # Once a task: the id of a view is a hash of the rubric.
        if task.task_id not in empty_views:
            empty_views[task.task_id] = task.judge_view("")
        view = empty_views[task.task_id].model_copy(update={"response": text})
        views.append(view)
    return views


def answers_of(tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """Return the answers of each control that a program writes, by control and task id."""
    usual = usual_terms(tasks)
    others = other_references(tasks)
    writers: dict[str, Callable[[Task], str]] = {
        "reference": lambda task: task.reference_answer or "",
        "fixed_template": lambda task: fixed_template(task.question),
        "learned_template": lambda task: learned_template(task.question, usual),
        "question": lambda task: task.question,
        "passage_start": lambda task: task.grounding.reveal()[:400],
        "shuffled": lambda task: shuffled(
            task.reference_answer or "", seed=task.task_id
        ),
        "negated": lambda task: negated(task.reference_answer or ""),
        "keyword_spam": keyword_spam,
        "empty": lambda _task: "",
    }
    if others:
        writers[_OTHER_REFERENCE] = lambda task: others[task.task_id]
    if all(task.context for task in tasks):
        writers |= of_context()
    return {
        name: {task.task_id: write(task) for task in tasks}
        for name, write in writers.items()
    }


def of_context() -> dict[str, Callable[[Task], str]]:
    """Return the functions that write the controls of open-book tasks alone, by control."""
    return {
        "context_start": lambda task: context_start(task.context or ()),
        "nearest_sentences": lambda task: nearest_sentences(
            task.question, task.context or ()
        ),
    }


async def _judge_all(
    views: Sequence[JudgeView], judge: Judge | Sequence[Judge]
) -> list[JudgeResult]:
    if isinstance(judge, Immediate):
        return [judge.judge_now(view) for view in views]
    async with aclosing(JudgePool(judge, workers=16)) as pool:
        await pool.check()
        return await pool.judge_all(views)
