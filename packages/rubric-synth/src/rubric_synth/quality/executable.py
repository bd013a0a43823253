"""Runs the executable criteria of a draft: right for its own reference answer, wrong for the rest.

A check that the reference answer fails punishes right answers, and one that passes an empty answer,
the question or a wrong number pays for nothing: both teach a policy the wrong thing, and neither is
seen by a judge that only reads.

Numbers, phrases, patterns and schemas are always run. Code is run in the judge's sandbox, where
`quality` has a hybrid judge with `python_tests: true`; anywhere else it is only parsed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rubric_judge import HybridConfig, LexicalConfig, SandboxError, VerificationError
from rubric_judge.verification.directive import (
    ProgramCheck,
    SentenceScope,
    StructureChecks,
    parse_verification,
)
from rubric_judge.verification.execute import Programs
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.python_tests import PythonTests, parse_python, response_code
from rubric_judge.verification.quantities import plain_numbers, read_quantities
from rubric_synth.config import QualityConfig
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal

_RUNS: Final = 2
"""Tests whose result changes from one run to the next are no tests."""
_FACTORS: Final = (2.0, 0.3)
"""What the numbers of a wrong answer are multiplied with; by both, for one may hit by chance."""
_LONGEST_CODE: Final = 100_000
_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


_KINDS: Final = {"quantitative": NumericCheck, "code": PythonTests}
"""What a draft of a type holds at least one of."""


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
    if not isinstance(config.judge, HybridConfig) and not any(map(bool, checks.values())):
        return  # nothing to run, and no sandbox that may be missing
    judge = _hybrid(config)
    programs = _programs(judge.model_dump_json())
    try:
        for name, check in checks.items():
            if isinstance(check, PythonTests):
                code = _parsed(name, draft.reference_answer)
                if judge.python_tests:
                    await _check_tests(name, check, draft, code=code, programs=programs)
            elif check is not None:
                await _check_quick(name, check, draft, programs=programs)
    except SandboxError:
        raise StageRefusal(RejectionReason.JUDGE_UNAVAILABLE, "the sandbox of code") from None


def _hybrid(config: QualityConfig) -> HybridConfig:
    """Return how checks are run; which judge reads the other criteria makes no difference."""
    rest = LexicalConfig()
    hybrid = config.judge if isinstance(config.judge, HybridConfig) else HybridConfig(judge=rest)
    return hybrid.model_copy(update={"judge": rest})


@lru_cache(maxsize=8)
def _programs(judge: str) -> Programs:
    # One for the process: it bounds how many tests run at a time.
    return Programs(HybridConfig.model_validate_json(judge))


def _read(criterion: CriterionDraft) -> ProgramCheck | None:
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise _broken(criterion.id, error.problem) from None
    return None if isinstance(directive, SentenceScope | StructureChecks) else directive


async def _check_quick(name: str, check: ProgramCheck, draft: Draft, *, programs: Programs) -> None:
    async def passes(answer: str) -> bool:
        return (await programs.run(check, answer)).share == 1.0

    for answer, is_right, problem in (
        (draft.reference_answer, True, "the reference answer fails it"),
        ("", False, "an empty answer passes it"),
        (draft.question, False, "the question passes it"),
    ):
        if await passes(answer) is not is_right:
            raise _broken(name, problem)
    if isinstance(check, NumericCheck):
        wrong = [_with_wrong_numbers(draft.reference_answer, factor) for factor in _FACTORS]
        if all([await passes(answer) for answer in wrong]):
            raise _broken(name, "a wrong number passes it")


async def _check_tests(
    name: str, check: PythonTests, draft: Draft, *, code: ast.Module, programs: Programs
) -> None:
    def tries() -> Iterator[tuple[str, bool, str]]:
        problem = "the code of the reference answer does not pass every test"
        yield from [(draft.reference_answer, True, problem)] * _RUNS
        yield draft.question, False, "the question passes it"
        hollow = f"```python\n{_hollow(name, code)}\n```"
        yield hollow, False, "functions that do nothing pass it"

    for answer, is_right, problem in tries():
        if ((await programs.run(check, answer)).share == 1.0) is not is_right:
            raise _broken(name, problem)


def _with_wrong_numbers(answer: str, factor: float) -> str:
    text = plain_numbers(answer)
    parts: list[str] = []
    since = 0
    for quantity in read_quantities(text, units=False):
        parts += [text[since : quantity.start], repr(quantity.value * factor or factor)]
        since = quantity.end
    return "".join((*parts, text[since:]))


def _parsed(name: str, answer: str) -> ast.Module:
    """Return the syntax tree of an answer's code, which is neither compiled nor executed."""
    code = response_code(answer)
    if code is None:
        raise _broken(name, "the reference answer holds no block of Python")
    if len(code) > _LONGEST_CODE:
        raise _broken(name, f"the reference answer's code is above {_LONGEST_CODE} characters")
    try:
        with warnings.catch_warnings():  # an odd escape sequence is the code's own affair
            warnings.simplefilter("ignore")
            return parse_python(code)
    except _NO_CODE as error:
        problem = f"the reference answer's code does not compile: {type(error).__name__}"
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
    return StageRefusal(RejectionReason.BROKEN_CHECK, f"{name}: {problem}" if name else problem)
