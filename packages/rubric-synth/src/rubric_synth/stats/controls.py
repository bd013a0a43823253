"""Answers that should not score well, and what they do score: how far a rubric can be gamed.

Printed beside every dataset, because a reward is only worth training on if an answer that knows
nothing earns much less of it than the reference answer.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from statistics import fmean
from typing import Final, NamedTuple

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import Judge, JudgeResult, JudgeView, Task
from rubric_core.rewriting import patterns
from rubric_judge import ClaimJudge, JudgePool, LexicalJudge
from rubric_judge.context_answers import context_start, nearest_sentences
from rubric_judge.labels import written
from rubric_judge.page.tables import counted
from rubric_judge.wrong_answers import (
    fixed_template,
    negated,
    other_references,
    shuffled,
)
from rubric_synth import language, stages, tables

CONTROLS: Final[dict[str, str]] = tables.read_table("controls")
"""Each control, and what it is."""

WRITTEN: Final = tuple(written.CONTROLS.values())
"""Those that somebody has to write."""

OF_CONTEXT: Final = ("context_start", "nearest_sentences")
"""Those that only open-book tasks have."""
_WARNINGS: Final[dict[str, str]] = tables.read_table("control_warnings")
_MUCH: Final = 0.5
"""Of what the reference earns; less is what any text of the subject picks up."""
_OF_ANOTHER: Final = "other_reference"
_PATTERNS: Final = patterns(tables.read_table("patterns")["controls"])
_TERMS: Final = 12
"""As many as a sentence that reads as one can hold."""
_FEWEST: Final = 5


def usual_terms(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Return the words that each kind of criterion expects most often, the most frequent first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        for criterion in task.rubric:
            terms = (*criterion.required_elements, *criterion.expected_keywords)
            words = (term.lower() for term in terms if term.isalpha())
            counts[criterion.id.rstrip("_0123456789")].update(words)
    return {kind: [w for w, _ in c.most_common(20)] for kind, c in counts.items()}


def learned_template(question: str, usual: Mapping[str, Sequence[str]]) -> str:
    """Return one form for all, with the question's names and the dataset's usual words.

    It is what a policy could learn without reading: it knows which words rubrics like, and
    nothing of the passage.

    Args:
        question: The question.
        usual: Of `usual_terms`.
    """
    names = [f"`{name}`" for name in _PATTERNS["named"].findall(question)]
    asked = _PATTERNS["points"].search(question)
    points = [
        f"The {point} is {_phrase(usual, 'supporting_point', turn=number)}."
        for number, point in enumerate(re.split(r", | and ", asked[1]) if asked else ())
    ]
    if len(names) > 1:
        takes = (
            f"It takes {name} as {_phrase(usual, 'parameter', turn=number)}."
            for number, name in enumerate(names[1:])
        )
        return " ".join((
            f"{names[0]} is used to compute {_phrase(usual, 'purpose')}.",
            *takes,
            f"It returns {_phrase(usual, 'returns')}.",
            *points,
            f"Note that {_phrase(usual, 'caveat')} must not be used if it is not the default.",
        ))  # fmt: skip
    subject = (
        names[0]
        if names
        else " ".join(language.content_words(question)[1:3]) or "subject"
    )
    first = f"The {subject} is {_phrase(usual, 'central_idea')}."
    last = f"However, {_phrase(usual, 'limitation')} must not be used in all of these cases."
    return " ".join([first, *points, last])


def _phrase(usual: Mapping[str, Sequence[str]], kind: str, *, turn: int = 0) -> str:
    """Join the most usual words of a kind as a phrase, each turn in another order."""
    terms = deque(usual.get(kind, ())[:_TERMS])
    if len(terms) < _FEWEST:
        return "the value of an input"
    terms.rotate(turn)
    words = list(terms)
    pairs = zip(words[::2], words[1::2], strict=False)
    return language.listed([f"the {one} of {other}" for one, other in pairs])


def keyword_spam(task: Task) -> str:
    """Return every term of the rubric, without sentences."""
    terms = [term for criterion in task.rubric for term in stages.terms_of(criterion)]
    return ", ".join(terms * 3)


class ControlRewards(NamedTuple):
    """What the controls earn."""

    controls: dict[str, float]
    """Mean reward by name in `CONTROLS`, in [0, 1]; one that no answer of was judged is left out.
    """
    control_failures: int
    """Answers that could not be judged."""
    written_answers: dict[str, int]
    """Questions that a control has a written answer to, by name; no other is answered by all."""


def described(name: str, counts: Mapping[str, int]) -> str:
    """Return what a control is, and of how many questions where not of all.

    Args:
        name: In `CONTROLS`; of any other the answer is empty.
        counts: Questions that have a written answer, by control.
    """
    count = counts.get(name)
    questions = "" if count is None else f", for {counted(count, 'question')}"
    return f"{CONTROLS.get(name, '')}{questions}"


def overpaid(rewards: Mapping[str, float]) -> dict[str, str]:
    """Return the wrong answers that earn at least half of what the reference earns, and a warning.

    Args:
        rewards: Mean reward of each control.
    """
    reference = rewards.get("reference", 0.0)
    return {
        name: f"{CONTROLS[name]}: {100 * rewards[name]:.1f} %, where the reference earns "
        f"{100 * reference:.1f} %; {meaning}"
        for name, meaning in _WARNINGS.items()
        if reference > 0 and rewards.get(name, 0.0) >= _MUCH * reference
    }


async def control_rewards(
    tasks: Sequence[Task],
    judge: Judge | Sequence[Judge],
    answered: tuple[Sequence[Task], written.KnownAnswers] | None = None,
) -> ControlRewards:
    """Return the mean reward of each control over the tasks.

    Args:
        tasks: At least one task; of one document alone there is no other reference answer.
        judge: Scores the answers, many at a time; or several replicas of one.
        answered: Tasks that somebody has written right and false answers to, and these.

    Raises:
        JudgeSetupError: The judge is not there.
    """
    made = _answers(tasks)
    answers = [
        (name, task, write(task)) for name, write in made.items() for task in tasks
    ]
    counts: dict[str, int] = {}
    if answered is not None:
        asked, known = answered
        for name, texts in known.controls.items():
            found = [
                (name, task, texts[task.task_id])
                for task in asked
                if task.task_id in texts
            ]
            answers += found
            counts[name] = len(found)
    # Once a task: the id of a view is a hash of the rubric.
    views = {task.task_id: task.judge_view("") for _, task, _ in answers}
    results = await _judged(
        [
            views[task.task_id].model_copy(update={"response": text})
            for _, task, text in answers
        ],
        judge,
    )
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for (name, task, _), result in zip(answers, results, strict=True):
        if result.outcome is not rubric_core.Outcome.UNAVAILABLE:
            rewards[name].append(rubric_core.normalized_reward(result, task.rubric))
    return ControlRewards(
        controls={name: fmean(rewards[name]) for name in CONTROLS if name in rewards},
        control_failures=len(answers) - sum(map(len, rewards.values())),
        written_answers=counts,
    )


def _answers(tasks: Sequence[Task]) -> dict[str, Callable[[Task], str]]:
    usual = usual_terms(tasks)
    others = other_references(tasks)
    answers: dict[str, Callable[[Task], str]] = {
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
        answers[_OF_ANOTHER] = lambda task: others[task.task_id]
    if all(task.context for task in tasks):
        answers |= of_context()
    return answers


def of_context() -> dict[str, Callable[[Task], str]]:
    """Return what writes the controls that only open-book tasks have, by their names."""
    return {
        "context_start": lambda task: context_start(task.context or ()),
        "nearest_sentences": lambda task: nearest_sentences(
            task.question, task.context or ()
        ),
    }


async def _judged(
    views: Sequence[JudgeView], judge: Judge | Sequence[Judge]
) -> list[JudgeResult]:
    if isinstance(judge, LexicalJudge | ClaimJudge):
        return [
            judge.judge_now(view) for view in views
        ]  # a program: nothing to wait for
    async with aclosing(JudgePool(judge, workers=16)) as pool:
        await pool.check()
        return await pool.judge_all(views)
