"""What a judge gives the reference answer, and answers that should earn little or nothing.

Each answer is one call. The reference answer comes first, for it is the one most often refused;
of the others the shortest first. An invalid judgement is no reward of 0, which for an empty answer
would look like a pass: it refuses the draft with a reason of its own, as nothing is known of it.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import Outcome
from rubric_judge.lexical.words import stem
from rubric_synth.language import content_words
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rubric_core import JudgeResult, JudgeView, Task
    from rubric_synth.config import QualityConfig

    AskJudge = Callable[[JudgeView], Awaitable[JudgeResult]]
    from collections.abc import Callable, Iterator, Sequence

    from rubric_synth.config import Corruption

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
    copies: dict[Corruption, str] = {}
    for kind in kinds:
        if copy := _copy(task, kind, seed):
            copies[kind] = copy
    for kind in () if copies else _MAKERS:
        if copy := _copy(task, kind, seed):
            return {kind: copy}
    return copies


def _copy(task: Task, kind: Corruption, seed: str) -> str:
    """Return the copy, or "" where it would be blank or the answer again."""
    answer = task.reference_answer or ""
    copy = _MAKERS[kind](task, answer, lambda: random.Random(f"{seed} {kind}"))
    return copy if copy.split() != answer.split() else ""


def _other_terms(task: Task, answer: str, chance: Chance) -> str:
    source = chance()
    asked = frozenset(stem(word) for term in _terms(task) for word in _TOKEN.findall(term))
    known = asked | frozenset(stem(word) for word in _TOKEN.findall(answer))
    others = sorted(
        {
            word
            for word in map(str.lower, content_words(task.grounding.reveal()))
            if len(word) >= _SHORTEST_STAND_IN and stem(word) not in known
        }
    )
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
        return _in_case_of(found[0], stand_ins.get(key, found[0]))

    return _TOKEN.sub(replaced, answer)


def _terms(task: Task) -> Iterator[str]:
    for criterion in task.rubric:
        yield from criterion.required_elements
        yield from criterion.expected_keywords
        yield from criterion.expected_concepts


def _in_case_of(word: str, stand_in: str) -> str:
    return stand_in.capitalize() if word[0].isupper() else stand_in


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
    rewards = _Rewards(task, judge)
    reference = await rewards.of("reference", task.reference_answer or "")
    if reference < config.min_reference_reward:
        detail = f"{reference:.2f}, below {config.limit('min_reference_reward')}"
        raise StageRefusal(RejectionReason.LOW_REFERENCE_REWARD, detail)
    empty = await rewards.of("empty", "")
    if empty > config.max_empty_reward:
        detail = f"{empty:.2f}, above {config.limit('max_empty_reward')}"
        raise StageRefusal(RejectionReason.REWARDED_EMPTY_ANSWER, detail)
    echo = await rewards.of("echo", task.question)
    if echo > config.max_echo_reward:
        detail = f"{echo:.2f}, above {config.limit('max_echo_reward')}"
        raise StageRefusal(RejectionReason.REWARDED_QUESTION_ECHO, detail)
    copies = corrupted_copies(task, config.corruptions, seed=rewards.task_id)
    if not copies:
        raise StageRefusal(RejectionReason.NOT_DISCRIMINATING, "the reference is too short")
    for kind, copy in copies.items():
        reward = await rewards.of(kind, copy)
        if reference - reward < config.min_discrimination:
            apart = config.limit("min_discrimination")
            detail = f"{kind}: {reference:.2f} and {reward:.2f}, closer than {apart}"
            raise StageRefusal(RejectionReason.NOT_DISCRIMINATING, detail)


class _Rewards:
    """Rewards of answers to one task."""

    def __init__(self, task: Task, judge: AskJudge) -> None:
        self._rubric = task.rubric
        self._judge = judge
        # Once: the task's id, which every view holds, is a hash of the whole rubric.
        self._view = task.judge_view("")

    @property
    def task_id(self) -> str:
        return self._view.task_id

    async def of(self, name: str, response: str) -> float:
        result = await self._judge(self._view.model_copy(update={"response": response}))
        match result.outcome:
            case Outcome.UNAVAILABLE:
                raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, f"{name}: {result.reason}")
            case Outcome.INVALID:
                raise StageRefusal(RejectionReason.JUDGE_INVALID, f"{name}: {result.reason}")
            case Outcome.SCORED:
                return rubric_core.normalized_reward(result, self._rubric)
