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
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial

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

_LONGEST_CODE = 100_000
_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


_REST = LexicalConfig()
_KINDS = {"quantitative": NumericCheck, "code": python_tests.PythonTests}
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
    if kind is not None:
        has_kind = any(isinstance(check, kind) for check in checks.values())
        if not has_kind:
            problem = f"a {draft.task_type} question without a check of that kind"
            raise _broken("", problem)
    # How checks are run; which judge reads the other criteria makes no difference.
    if isinstance(config.judge, HybridConfig):
        judge = config.judge.model_copy(update={"judge": _REST})
    elif any(map(bool, checks.values())):
        judge = HybridConfig(judge=_REST)
    else:
        return  # nothing to run, and no sandbox that may be missing
    programs = _programs(judge.model_dump_json())
    try:
        for name, check in checks.items():
            if check is None:
                continue
            passes = partial(_passes, programs, check)
            if not isinstance(check, python_tests.PythonTests):
                is_numeric = isinstance(check, NumericCheck)
                await _check_quick(name, passes, draft, is_numeric=is_numeric)
                continue
            code = _parsed(name, draft.reference_answer)
            if judge.python_tests:
                await _check_tests(name, passes, draft, code)
    except SandboxError:
        reason = RejectionReason.JUDGE_UNAVAILABLE
        raise StageRefusal(reason, "the sandbox of code") from None


@lru_cache(maxsize=8)
def _programs(judge: str) -> execute.Programs:
    # One for the process: it bounds how many tests run at a time.
    return execute.Programs(HybridConfig.model_validate_json(judge))


def _read(criterion: CriterionDraft) -> ProgramCheck | None:
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise _broken(criterion.id, error.problem) from None
    if isinstance(directive, SentenceScope | StructureChecks):
        return None
    return directive


_Passes = Callable[[str], Awaitable[bool]]


async def _passes(programs: execute.Programs, check: ProgramCheck, answer: str) -> bool:
    result = await programs.run(check, answer)
    return result.share == 1.0


async def _check_quick(
    name: str,
    passes: _Passes,
    draft: Draft,
    *,
    is_numeric: bool,
) -> None:
    if not await passes(draft.reference_answer):
        raise _broken(name, "the reference answer fails it")
    if await passes(""):
        raise _broken(name, "an empty answer passes it")
    if await passes(draft.question):
        raise _broken(name, "the question passes it")
    if is_numeric:
        # Both are tried, for a wrong number may hit by chance.
        doubled = await passes(_with_wrong_numbers(draft.reference_answer, 2.0))
        lowered = await passes(_with_wrong_numbers(draft.reference_answer, 0.3))
        if doubled and lowered:
            raise _broken(name, "a wrong number passes it")


async def _check_tests(
    name: str,
    passes: _Passes,
    draft: Draft,
    code: ast.Module,
) -> None:
    # Twice: tests whose result changes from one run to the next are not tests.
    for _ in range(2):
        if not await passes(draft.reference_answer):
            problem = "the code of the reference answer does not pass every test"
            raise _broken(name, problem)
    if await passes(draft.question):
        raise _broken(name, "the question passes it")
    hollow = _hollow(name, code)
    if await passes(f"```python\n{hollow}\n```"):
        raise _broken(name, "functions that do nothing pass it")


def _with_wrong_numbers(answer: str, factor: float) -> str:
    text = quantities.plain_numbers(answer)
    parts: list[str] = []
    end = 0
    for quantity in quantities.read_quantities(text, units=False):
        wrong = quantity.value * factor
        parts.append(text[end : quantity.start])
        parts.append(repr(wrong or factor))
        end = quantity.end
    parts.append(text[end:])
    return "".join(parts)


def _parsed(name: str, answer: str) -> ast.Module:
    """Return the syntax tree of an answer's code, which is neither compiled nor executed."""
    code = python_tests.response_code(answer)
    if code is None:
        raise _broken(name, "the reference answer holds no block of Python")
    if len(code) > _LONGEST_CODE:
        problem = f"the reference answer's code is above {_LONGEST_CODE} characters"
        raise _broken(name, problem)
    try:
        with warnings.catch_warnings():
            # An odd escape sequence is the code's own affair.
            warnings.simplefilter("ignore")
            return python_tests.parse_python(code)
    except _NO_CODE as error:
        kind = type(error).__name__
        problem = f"the reference answer's code does not compile: {kind}"
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
    detail = f"{name}: {problem}" if name else problem
    return StageRefusal(RejectionReason.BROKEN_CHECK, detail)


AskJudge = Callable[[JudgeView], Awaitable[JudgeResult]]

_TOKEN = re.compile(r"\w+")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
_PIECE = re.compile(r"[^\n]*?[.!?](?:\s+|$)|[^\n]+\n*|\n+")
_SHORTEST_STAND_IN = 4


def corrupted_copies(
    task: Task,
    kinds: Sequence[Corruption],
    *,
    seed: str | None = None,
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
    if seed is None:
        seed = task.task_id
    copies: dict[Corruption, str] = {}
    for kind in kinds:
        copy = _copy(task, kind, seed)
        if copy:
            copies[kind] = copy
    if copies:
        return copies
    for kind in _MAKERS:
        copy = _copy(task, kind, seed)
        if copy:
            return {kind: copy}
    return {}


def _copy(task: Task, kind: Corruption, seed: str) -> str:
    """Return the copy, or "" where it would be blank or the answer again."""
    answer = task.reference_answer or ""
    chance = random.Random(f"{seed} {kind}")
    make = _MAKERS[kind]
    copy = make(task, answer, chance)
    if copy.split() == answer.split():
        return ""
    return copy


def _stems(text: str) -> set[str]:
    return set(map(stem, _TOKEN.findall(text)))


def _other_terms(task: Task, answer: str, chance: random.Random) -> str:
    expected = {
        word
        for criterion in task.rubric
        for term in terms_of(criterion)
        for word in _stems(term)
    }
    known = expected | _stems(answer)
    lowered = {word.lower() for word in content_words(task.grounding.reveal())}
    long_words = sorted(word for word in lowered if len(word) >= _SHORTEST_STAND_IN)
    others = [word for word in long_words if stem(word) not in known]
    chance.shuffle(others)
    stand_ins: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        key = stem(word)
        if key not in expected:
            return word
        if word.isdigit():
            return _other_number(match, chance)
        if key not in stand_ins and others:
            number = len(stand_ins) % len(others)
            stand_ins[key] = others[number]
        stand_in = stand_ins.get(key, word)
        if word[0].isupper():
            return stand_in.capitalize()
        return stand_in

    return _TOKEN.sub(replaced, answer)


def _half(_task: Task, answer: str, chance: random.Random) -> str:
    pieces = _pieces(answer)
    if len(pieces) == 1:
        words = answer.split()
        half = len(words) // 2
        return " ".join(words[:half])
    # An odd number of sentences: the smaller part, which lacks the first sentence.
    is_odd = len(pieces) % 2 == 1
    first = 1 if is_odd else chance.randrange(2)
    chosen = pieces[first::2]
    return "".join(chosen).strip()


def _numbers(_task: Task, answer: str, chance: random.Random) -> str:
    return _NUMBER.sub(lambda number: _other_number(number, chance), answer)


def _other_number(number: re.Match[str], chance: random.Random) -> str:
    """Return a number with as many digits, each of them another one."""

    def other_digit(digit: re.Match[str]) -> str:
        value = int(digit[0]) + chance.randint(1, 9)
        return str(value % 10)

    return re.sub(r"\d", other_digit, number[0])


def _first_sentence(_task: Task, answer: str, _chance: random.Random) -> str:
    if not answer.strip():
        return ""
    return _pieces(answer)[0].strip()


def _pieces(answer: str) -> list[str]:
    """Split into sentences, or into lines where there is code; joined, they are the answer."""
    if "```" in answer:
        return answer.splitlines(keepends=True)
    return [piece for piece in _PIECE.findall(answer) if piece]


_Maker = Callable[[Task, str, random.Random], str]

_MAKERS: dict[Corruption, _Maker] = {
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
        answer_view = view.model_copy(update={"response": criterion.wrong_answer})
        result = await judge(answer_view)
        _check_scored(result, "wrong")
        share = 0.0
        if criterion.weight:
            share = result.scores[criterion.id] / criterion.weight
        detail = f"{criterion.id}: {share:.2f}, above {_MOST_OF_A_WRONG_ANSWER}"
        is_paid = share > _MOST_OF_A_WRONG_ANSWER
        refuse(RejectionReason.REWARDED_WRONG_ANSWER, detail, when=is_paid)


_MOST_OF_A_WRONG_ANSWER = 0.5


def _check_scored(result: JudgeResult, name: str) -> None:
    """Refuse a draft of whose answer, here called by a name, the judge has given no verdict."""
    detail = f"{name}: {result.reason}"
    match result.outcome:
        case Outcome.UNAVAILABLE:
            raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, detail)
        case Outcome.INVALID:
            raise StageRefusal(RejectionReason.JUDGE_INVALID, detail)
        case Outcome.SCORED:
            pass


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
        answer_view = view.model_copy(update={"response": response})
        result = await judge(answer_view)
        _check_scored(result, name)
        return rubric_core.normalized_reward(result, task.rubric)

    reference = await earned("reference", task.reference_answer or "")
    detail = f"{reference:.2f}, below {config.limit('min_reference_reward')}"
    is_low = reference < config.min_reference_reward
    refuse(RejectionReason.LOW_REFERENCE_REWARD, detail, when=is_low)

    reward = await earned("empty", "")
    detail = f"{reward:.2f}, above {config.limit('max_empty_reward')}"
    is_high = reward > config.max_empty_reward
    refuse(RejectionReason.REWARDED_EMPTY_ANSWER, detail, when=is_high)

    reward = await earned("echo", task.question)
    detail = f"{reward:.2f}, above {config.limit('max_echo_reward')}"
    is_high = reward > config.max_echo_reward
    refuse(RejectionReason.REWARDED_QUESTION_ECHO, detail, when=is_high)

    reason = RejectionReason.NOT_DISCRIMINATING
    copies = corrupted_copies(task, config.corruptions, seed=view.task_id)
    refuse(reason, "the reference is too short", when=not copies)
    for kind, copy in copies.items():
        reward = await earned(kind, copy)
        apart = config.limit("min_discrimination")
        detail = f"{kind}: {reference:.2f} and {reward:.2f}, closer than {apart}"
        is_close = reference - reward < config.min_discrimination
        refuse(reason, detail, when=is_close)
