"""Checks that try answers out: what programs make of them, and what a judge gives them.

A check that the reference answer fails punishes right answers, and one that passes an empty answer,
the question or a wrong number pays for nothing: both teach a policy the wrong thing, and neither is
seen by a judge that only reads. Numbers, phrases, patterns and schemas are always run. Code is run
in the judge's sandbox, where `quality` has a hybrid judge with `python_tests: true`; anywhere else
it is only parsed.

Each answer costs one call of the judge. The reference answer comes first, for it is the one most
often refused; then the others, the shortest first. An invalid judgement is no reward of 0, which
for an empty answer would look like a pass: it refuses the draft with a reason of its own, as
nothing is known of it.
"""

import ast
import random
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Final

import rubric_core  # `normalized_reward` loads numpy, at its first use
from rubric_core import JudgeResult, JudgeView, Outcome, Task
from rubric_judge import HybridConfig, LexicalConfig, SandboxError, VerificationError
from rubric_judge.checks import execute, python_tests, quantities
from rubric_judge.checks.directive import (
    ProgramCheck,
    SentenceScope,
    StructureChecks,
    parse_verification,
)
from rubric_judge.checks.numeric import NumericCheck
from rubric_judge.judges.lexical.words import stem
from rubric_synth.config import Corruption, QualityConfig
from rubric_synth.document import RejectionReason
from rubric_synth.language import content_words
from rubric_synth.stages.stages import (
    CriterionDraft,
    Draft,
    StageRefusal,
    refuse,
    terms_of,
)

_LONGEST_CODE: Final = 100_000
_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


_REST: Final = LexicalConfig()
_KINDS: Final = {"quantitative": NumericCheck, "code": python_tests.PythonTests}
"""Kind of check that a draft of each type has at least one of."""


async def check_executable_criteria(draft: Draft, config: QualityConfig) -> None:
    """Check that the executable criteria of a draft tell right from wrong.

    Args:
        draft: One whose structure is sound.
        config: Its judge says whether code is run, and within which limits.

    Raises:
        StageRefusal: `BROKEN_CHECK` with the criterion's id; `JUDGE_UNAVAILABLE` where the sandbox
            did not start.
    """
    checks = {criterion.id: _read(criterion) for criterion in draft.criteria}
    kind = _KINDS.get(draft.task_type)
    if kind and not any(isinstance(check, kind) for check in checks.values()):
        raise _broken("", f"a {draft.task_type} question without a check of that kind")
    if not isinstance(config.judge, HybridConfig) and not any(
        map(bool, checks.values())
    ):
        return  # nothing to run, and no sandbox that may be missing
    # How checks are run; which judge reads the other criteria makes no difference.
    hybrid = (
        config.judge
        if isinstance(config.judge, HybridConfig)
        else HybridConfig(judge=_REST)
    )
    judge = hybrid.model_copy(update={"judge": _REST})
    programs = _programs(judge.model_dump_json())
    try:
        for name, check in checks.items():
            if check is None:
                continue
            passes = partial(_passes, programs, check)
            if not isinstance(check, python_tests.PythonTests):
                await _check_quick(
                    name, passes, draft, is_numeric=isinstance(check, NumericCheck)
                )
                continue
            code = _parsed(name, draft.reference_answer)
            if judge.python_tests:
                await _check_tests(name, passes, draft, code)
    except SandboxError:
        raise StageRefusal(
            RejectionReason.JUDGE_UNAVAILABLE, "the sandbox of code"
        ) from None


@lru_cache(maxsize=8)
def _programs(judge: str) -> execute.Programs:
    # One for the process: it bounds how many tests run at a time.
    return execute.Programs(HybridConfig.model_validate_json(judge))


def _read(criterion: CriterionDraft) -> ProgramCheck | None:
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise _broken(criterion.id, error.problem) from None
    return None if isinstance(directive, SentenceScope | StructureChecks) else directive


_Passes = Callable[[str], Awaitable[bool]]


async def _passes(programs: execute.Programs, check: ProgramCheck, answer: str) -> bool:
    return (await programs.run(check, answer)).share == 1.0


async def _check_quick(
    name: str, passes: _Passes, draft: Draft, *, is_numeric: bool
) -> None:
    if not await passes(draft.reference_answer):
        raise _broken(name, "the reference answer fails it")
    for answer, what in (("", "an empty answer"), (draft.question, "the question")):
        if await passes(answer):
            raise _broken(name, f"{what} passes it")
    if is_numeric:
        # By both, for a wrong number may hit by chance.
        wrong = [
            _with_wrong_numbers(draft.reference_answer, factor) for factor in (2.0, 0.3)
        ]
        if all([await passes(answer) for answer in wrong]):
            raise _broken(name, "a wrong number passes it")


async def _check_tests(
    name: str, passes: _Passes, draft: Draft, code: ast.Module
) -> None:
    for _ in range(
        2
    ):  # tests whose result changes from one run to the next are no tests
        if not await passes(draft.reference_answer):
            raise _broken(
                name, "the code of the reference answer does not pass every test"
            )
    if await passes(draft.question):
        raise _broken(name, "the question passes it")
    if await passes(f"```python\n{_hollow(name, code)}\n```"):
        raise _broken(name, "functions that do nothing pass it")


def _with_wrong_numbers(answer: str, factor: float) -> str:
    text = quantities.plain_numbers(answer)
    parts: list[str] = []
    since = 0
    for quantity in quantities.read_quantities(text, units=False):
        parts += [text[since : quantity.start], repr(quantity.value * factor or factor)]
        since = quantity.end
    return "".join((*parts, text[since:]))


def _parsed(name: str, answer: str) -> ast.Module:
    """Return the syntax tree of an answer's code, which is neither compiled nor executed."""
    code = python_tests.response_code(answer)
    if code is None:
        raise _broken(name, "the reference answer holds no block of Python")
    if len(code) > _LONGEST_CODE:
        raise _broken(
            name, f"the reference answer's code is above {_LONGEST_CODE} characters"
        )
    try:
        with (
            warnings.catch_warnings()
        ):  # an odd escape sequence is the code's own affair
            warnings.simplefilter("ignore")
            return python_tests.parse_python(code)
    except _NO_CODE as error:
        problem = (
            f"the reference answer's code does not compile: {type(error).__name__}"
        )
        raise _broken(name, problem) from None


def _hollow(name: str, code: ast.Module) -> str:
    """Return the code with functions that do nothing."""
    for node in ast.walk(code):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    try:
        return ast.unparse(ast.fix_missing_locations(code))
    except _NO_CODE:
        raise _broken(name, "the reference answer's code nests too deep") from None


def _broken(name: str, problem: str) -> StageRefusal:
    return StageRefusal(
        RejectionReason.BROKEN_CHECK, f"{name}: {problem}" if name else problem
    )


AskJudge = Callable[[JudgeView], Awaitable[JudgeResult]]

_TOKEN: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
_PIECE: Final = re.compile(r"[^\n]*?[.!?](?:\s+|$)|[^\n]+\n*|\n+")
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
    copy = _MAKERS[kind](task, answer, random.Random(f"{seed} {kind}"))
    return copy if copy.split() != answer.split() else ""


def _other_terms(task: Task, answer: str, chance: random.Random) -> str:
    terms = " ".join(term for criterion in task.rubric for term in terms_of(criterion))
    asked = frozenset(map(stem, _TOKEN.findall(terms)))
    known = asked | frozenset(map(stem, _TOKEN.findall(answer)))
    lowered = {word.lower() for word in content_words(task.grounding.reveal())}
    others = sorted(
        w for w in lowered if len(w) >= _SHORTEST_STAND_IN and stem(w) not in known
    )
    chance.shuffle(others)
    stand_ins: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        key = stem(word)
        if key not in asked:
            return word
        if word.isdigit():
            return _other_number(match, chance)
        if key not in stand_ins and others:
            stand_ins[key] = others[len(stand_ins) % len(others)]
        stand_in = stand_ins.get(key, word)
        return stand_in.capitalize() if word[0].isupper() else stand_in

    return _TOKEN.sub(replaced, answer)


def _half(_task: Task, answer: str, chance: random.Random) -> str:
    pieces = _pieces(answer)
    if len(pieces) == 1:
        words = answer.split()
        return " ".join(words[: len(words) // 2])
    # An odd number of sentences: the smaller part, which lacks the first sentence.
    first = 1 if len(pieces) % 2 else chance.randrange(2)
    return "".join(pieces[first::2]).strip()


def _numbers(_task: Task, answer: str, chance: random.Random) -> str:
    return _NUMBER.sub(lambda number: _other_number(number, chance), answer)


def _other_number(number: re.Match[str], chance: random.Random) -> str:
    """Return a number with as many digits, each of them another one."""

    def other_digit(digit: re.Match[str]) -> str:
        return str((int(digit[0]) + chance.randint(1, 9)) % 10)

    return re.sub(r"\d", other_digit, number[0])


def _first_sentence(_task: Task, answer: str, _chance: random.Random) -> str:
    return _pieces(answer)[0].strip() if answer.strip() else ""


def _pieces(answer: str) -> list[str]:
    """Split into sentences, or into lines where there is code; joined, they are the answer."""
    if "```" in answer:
        return answer.splitlines(keepends=True)
    return [piece for piece in _PIECE.findall(answer) if piece]


_MAKERS: Final[dict[Corruption, Callable[[Task, str, random.Random], str]]] = {
    "half": _half,
    "first_sentence": _first_sentence,
    "terms": _other_terms,
    "numbers": _numbers,
}


async def check_wrong_answers(draft: Draft, task: Task, judge: AskJudge) -> None:
    """Check that no criterion pays for the wrong answer that was written for it.

    Args:
        draft: Whose criteria may have one.
        task: Of the draft.
        judge: Judges one answer; an embedded one, for each wrong answer is a call.

    Raises:
        StageRefusal: `REWARDED_WRONG_ANSWER` with the criterion's id, or no verdict of the judge.
    """
    view = task.judge_view("")
    for criterion in draft.criteria:
        if not criterion.wrong_answer.strip():
            continue
        result = await judge(
            view.model_copy(update={"response": criterion.wrong_answer})
        )
        if result.outcome is not Outcome.SCORED:
            is_down = result.outcome is Outcome.UNAVAILABLE
            unavailable = RejectionReason.JUDGE_UNAVAILABLE
            invalid = RejectionReason.JUDGE_INVALID
            raise StageRefusal(
                unavailable if is_down else invalid, f"wrong: {result.reason}"
            )
        share = (
            result.scores[criterion.id] / criterion.weight if criterion.weight else 0.0
        )
        detail = f"{criterion.id}: {share:.2f}, above {_MOST_OF_A_WRONG_ANSWER}"
        is_paid = share > _MOST_OF_A_WRONG_ANSWER
        refuse(RejectionReason.REWARDED_WRONG_ANSWER, detail, when=is_paid)


_MOST_OF_A_WRONG_ANSWER: Final = 0.5


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
                raise StageRefusal(
                    RejectionReason.JUDGE_UNAVAILABLE, f"{name}: {result.reason}"
                )
            case Outcome.INVALID:
                raise StageRefusal(
                    RejectionReason.JUDGE_INVALID, f"{name}: {result.reason}"
                )
            case Outcome.SCORED:
                return rubric_core.normalized_reward(result, task.rubric)

    reference = await earned("reference", task.reference_answer or "")
    detail = f"{reference:.2f}, below {config.limit('min_reference_reward')}"
    is_low = reference < config.min_reference_reward
    refuse(RejectionReason.LOW_REFERENCE_REWARD, detail, when=is_low)
    for name, answer, most, reason in (
        ("empty", "", "max_empty_reward", RejectionReason.REWARDED_EMPTY_ANSWER),
        (
            "echo",
            task.question,
            "max_echo_reward",
            RejectionReason.REWARDED_QUESTION_ECHO,
        ),
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
