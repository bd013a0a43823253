"""What a judge gives the reference answer, and answers that should earn little or nothing.

Each answer is one call. The reference answer comes first, for it is the one most often refused;
of the others the shortest first. An invalid judgement is no reward of 0, which for an empty answer
would look like a pass: it refuses the draft with a reason of its own, as nothing is known of it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import JudgeResult, JudgeView, Outcome, Task
from rubric_judge.lexical.words import stem
from rubric_synth.config import Corruption, QualityConfig
from rubric_synth.language import content_words
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal, refuse, terms_of

AskJudge = Callable[[JudgeView], Awaitable[JudgeResult]]

Chance = Callable[[], random.Random]
"""Begins the same row of chances each time; not every copy needs one."""

_TOKEN: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
_PIECE: Final = re.compile(r"[^\n]*?[.!?](?:\s+|$)|[^\n]+\n*|\n+")
_FENCE: Final = "```"
_SHORTEST_STAND_IN: Final = 4


def corrupted_copies(
    task: Task, kinds: Sequence[Corruption], *, seed: str | None = None
) -> dict[Corruption, str]:
    """Return a worse copy of the reference answer for each kind.

    A kind that leaves the answer as it is, such as `numbers` where there are none, is left out;
    where that leaves nothing, the first kind that changes it stands in.

    Args:
        task: The task.
        kinds: What to do to its answer.
        seed: Decides what is left to chance; the task's id if None.

    Returns:
        By kind; empty only where the answer is so short that no kind changes it.
    """
    seed = task.task_id if seed is None else seed

    def copies(of: Iterable[Corruption]) -> Iterator[tuple[Corruption, str]]:
        return ((kind, copy) for kind in of if (copy := _copy(task, kind, seed)))

    return dict(copies(kinds)) or dict(islice(copies(_MAKERS), 1))


def _copy(task: Task, kind: Corruption, seed: str) -> str:
    """Return the copy, or "" where it would be blank or the answer again."""
    answer = task.reference_answer or ""
    copy = _MAKERS[kind](task, answer, lambda: random.Random(f"{seed} {kind}"))
    return copy if copy.split() != answer.split() else ""


def _other_terms(task: Task, answer: str, chance: Chance) -> str:
    source = chance()
    terms = " ".join(term for criterion in task.rubric for term in terms_of(criterion))
    asked = frozenset(map(stem, _TOKEN.findall(terms)))
    known = asked | frozenset(map(stem, _TOKEN.findall(answer)))
    lowered = {word.lower() for word in content_words(task.grounding.reveal())}
    others = sorted(w for w in lowered if len(w) >= _SHORTEST_STAND_IN and stem(w) not in known)
    source.shuffle(others)
    stand_ins: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        key = stem(found[0])
        if key not in asked:
            return found[0]
        if found[0].isdigit():
            return _other_number(found, source)
        if key not in stand_ins and others:
            stand_ins[key] = others[len(stand_ins) % len(others)]
        stand_in = stand_ins.get(key, found[0])
        return stand_in.capitalize() if found[0][0].isupper() else stand_in

    return _TOKEN.sub(replaced, answer)


def _half(_task: Task, answer: str, chance: Chance) -> str:
    pieces = _pieces(answer)
    if len(pieces) == 1:
        words = answer.split()
        return " ".join(words[: len(words) // 2])
    # Of an odd number the smaller part, which lacks the first sentence.
    first = 1 if len(pieces) % 2 else chance().randrange(2)
    return "".join(pieces[first::2]).strip()


def _numbers(_task: Task, answer: str, chance: Chance) -> str:
    source = chance()
    return _NUMBER.sub(lambda found: _other_number(found, source), answer)


def _other_number(found: re.Match[str], source: random.Random) -> str:
    """Return a number of as many digits, no digit of it the same."""
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + source.randint(1, 9)) % 10), found[0])


def _first_sentence(_task: Task, answer: str, _chance: Chance) -> str:
    return _pieces(answer)[0].strip() if answer.strip() else ""


def _pieces(answer: str) -> list[str]:
    """Split into sentences, or into lines where there is code; joined, they are the answer."""
    if _FENCE in answer:
        return answer.splitlines(keepends=True)
    return [piece for piece in _PIECE.findall(answer) if piece]


_MAKERS: Final[dict[Corruption, Callable[[Task, str, Chance], str]]] = {
    "half": _half,
    "first_sentence": _first_sentence,
    "terms": _other_terms,
    "numbers": _numbers,
}


async def check_rewards(task: Task, judge: AskJudge, config: QualityConfig) -> None:
    """Check that the rubric can be satisfied, and tells the reference answer from worse ones.

    Args:
        task: One that passed every other check.
        judge: Judges one answer.
        config: The thresholds, and which corrupted copies are tried.

    Raises:
        StageRefusal: With the first reason found.
    """
    # Once: the task's id, which every view holds, is a hash of the whole rubric.
    view = task.judge_view("")

    async def earned(name: str, response: str) -> float:
        result = await judge(view.model_copy(update={"response": response}))
        match result.outcome:
            case Outcome.UNAVAILABLE:
                raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, f"{name}: {result.reason}")
            case Outcome.INVALID:
                raise StageRefusal(RejectionReason.JUDGE_INVALID, f"{name}: {result.reason}")
            case Outcome.SCORED:
                return rubric_core.normalized_reward(result, task.rubric)

    reference = await earned("reference", task.reference_answer or "")
    detail = f"{reference:.2f}, below {config.limit('min_reference_reward')}"
    is_low = reference < config.min_reference_reward
    refuse(RejectionReason.LOW_REFERENCE_REWARD, detail, when=is_low)
    for name, answer, most, reason in (
        ("empty", "", "max_empty_reward", RejectionReason.REWARDED_EMPTY_ANSWER),
        ("echo", task.question, "max_echo_reward", RejectionReason.REWARDED_QUESTION_ECHO),
    ):
        reward = await earned(name, answer)
        detail = f"{reward:.2f}, above {config.limit(most)}"
        refuse(reason, detail, when=reward > getattr(config, most))
    reason = RejectionReason.NOT_DISCRIMINATING
    copies = corrupted_copies(task, config.corruptions, seed=view.task_id)
    refuse(reason, "the reference is too short", when=not copies)
    for kind, copy in copies.items():
        reward = await earned(kind, copy)
        apart = config.limit("min_discrimination")
        detail = f"{kind}: {reference:.2f} and {reward:.2f}, closer than {apart}"
        refuse(reason, detail, when=reference - reward < config.min_discrimination)
