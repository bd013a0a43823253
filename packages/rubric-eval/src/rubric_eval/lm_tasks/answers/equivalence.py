"""Whether two mathematical expressions are the same.

What is written alike, or is the same number, needs no algebra. The rest is math-verify's to decide,
in a process of its own: an expression comes from a model, and a tower of powers in it would hold up
or fill whoever evaluates it. That process has a time and a memory limit, and what passes them is
not the same.
"""

import atexit
import json
import logging
import os
import re
import subprocess
import sys
import threading
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns, rewriting

_TABLE: Final = toml_beside(__file__, "rewrites.toml")
_SIGNS: Final = str.maketrans(_TABLE["signs"])
_IN_ONE_FORM: Final = rewriting(_TABLE["rewrites"]["tidy"])
_WITHOUT_DRESS: Final = rewriting(_TABLE["rewrites"]["bare"].values())
_WORDED: Final = re.compile(_TABLE["rewrites"]["bare"]["words"][0])
_PATTERNS: Final = patterns(toml_beside(__file__, "patterns.toml")["equivalence"])
_LONG_WORD: Final = 4
_LONGEST_NAME: Final = 40


def tidy(text: str) -> str:
    """Return an expression with signs, fractions, separators and percent in one form."""
    return _PATTERNS["tail"].sub("", _IN_ONE_FORM(text.translate(_SIGNS))).strip()


def alike(text: str) -> str:
    """Return what is the same for all ways to write an expression that need no algebra."""
    return _PATTERNS["blanks"].sub("", _bare(text))


def unled(one: str, other: str) -> tuple[str, str]:
    """Return both tidied, and `x = 5` as 5 where the other one is no equation, or one of x too.

    What stands before the sign is a name or a calculation without one; else it is an equation.
    """
    one = tidy(one)
    other = tidy(other)
    names = one.rpartition("=")[0], other.rpartition("=")[0]
    if all(names) and alike(names[0]) == alike(names[1]):
        one = _behind_names(one)
        other = _behind_names(other)
    elif "=" in one and not _PATTERNS["relation"].search(other):
        one = _behind_names(one)
    elif "=" in other and not _PATTERNS["relation"].search(one):
        other = _behind_names(other)
    return one, other


def decided_by_form(one: str, other: str) -> bool | None:
    """Decide on numbers, words, bases, and values beside equations; None for everything else."""
    numbers = _number(one), _number(other)
    if None not in numbers:
        return numbers[0] == numbers[1]
    words = _words(one, other)
    if words is not None:
        return words[0].casefold() == words[1].casefold()
    bases = _base(one), _base(other)
    if bases[0] != bases[1] and (None not in bases or numbers != (None, None)):
        return False  # 40 is not 40 of base nine
    kinds = {_brackets(one), _brackets(other)}
    if "{}" in kinds and kinds & {"()", "[]", "(]", "[)"}:
        return False  # a set has no order
    for equation, value in ((one, other), (other, one)):
        is_value = not _PATTERNS["relation"].search(value) and not re.search(
            r",|\b(?:or|and)\b|\\pm", value
        )
        if "=" in equation and is_value:
            return False
    return None


def same_brackets(one: str, other: str) -> tuple[str, str]:
    """Return both, a bare list in the brackets of the other, so that its order counts too."""
    ordered = ("()", "[]", "(]", "[)")
    kinds = _brackets(one), _brackets(other)
    if kinds[0] in ordered and kinds[1] == ",":
        return one, f"{kinds[0][0]}{other}{kinds[0][1]}"
    if kinds[1] in ordered and kinds[0] == ",":
        return f"{kinds[1][0]}{one}{kinds[1][1]}", other
    return one, other


def _bare(text: str) -> str:
    text = _PATTERNS["tail"].sub("", _WITHOUT_DRESS(text)).strip()
    return re.sub(r"[()]", "", text) if re.fullmatch(r"\([A-Za-z]\)", text) else text


def _behind_names(text: str) -> str:
    *names, value = text.split("=")
    return value.strip() if all(map(_is_name, names)) and value.strip() else text


def _is_name(text: str) -> bool:
    if (
        _PATTERNS["relation"].search(text)
        or len(text) > _LONGEST_NAME
        or not text.strip()
    ):
        return False
    has_letter = re.search(r"[A-Za-z]", _PATTERNS["command"].sub("", text)) is not None
    return not has_letter or not _PATTERNS["operator"].search(text)


def _number(text: str) -> Decimal | None:
    text = _bare(text).strip()  # blanks count: `1, 200` is two numbers
    text = re.sub("[ ,]", "", text) if _PATTERNS["grouped"].fullmatch(text) else text
    return Decimal(text) if _PATTERNS["plain"].fullmatch(text) else None


def without_base(text: str) -> str:
    """Return the digits of a numeral that names its base, and anything else as it is."""
    return alike(text).partition("_")[0] if _base(text) else text


def _base(text: str) -> str | None:
    match = _PATTERNS["base"].fullmatch(alike(text))
    return match.group(1) if match else None


def _words(one: str, other: str) -> tuple[str, str] | None:
    """Return both where they are words: multiplied, their letters would have no order."""
    bare = tuple(" ".join(_bare(text).split()) for text in (one, other))
    if not all(_PATTERNS["words"].fullmatch(text) for text in bare):
        return None
    is_text = any(_WORDED.search(text) for text in (one, other))
    are_long = all(len(text) >= _LONG_WORD for text in bare)
    return (bare[0], bare[1]) if is_text or are_long else None


def _brackets(text: str) -> str:
    """Return the brackets around a whole list, "," for a list without any, or nothing."""
    text = _bare(text).replace(r"\{", "⦃").replace(r"\}", "⦄").strip()
    depth = 0
    commas = 0
    closes_at = -1
    for place, char in enumerate(text):
        if char in "([⦃{":
            depth += 1
        elif char in ")]⦄}":
            depth -= 1
            if depth == 0 and closes_at < 0:
                closes_at = place
        elif char == "," and depth <= 1:
            commas += 1 if depth or closes_at < 0 else 0
    if not commas:
        return ""
    is_whole = text[:1] in "([⦃" and closes_at == len(text) - 1
    if is_whole:
        return (text[0] + text[-1]).replace("⦃", "{").replace("⦄", "}")
    return "," if not re.search(r"[(\[⦃]", text) else ""


_MEMORY_BYTES: Final = 4 * 2**30


def main() -> None:
    """Answer until the input ends."""
    _limit_memory()
    try:
        math_verify = import_module("math_verify")
    except ImportError:
        print("missing", flush=True)  # noqa: T201  # the protocol
        return
    logging.disable()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        one, other = json.loads(line)
        is_same = _is_same(math_verify, one, other)
        print("1" if is_same else "0", flush=True)  # noqa: T201


def _is_same(math_verify: Any, one: str, other: str) -> bool:
    """Whoever asks limits the time: it can end this process, and a signal cannot end a power.

    math-verify takes an interval for an inequality and not the other way about: each is the target
    once.
    """
    parsed = _parse(math_verify, one), _parse(math_verify, other)
    try:
        is_same = any(
            math_verify.verify(target, answer, timeout_seconds=None)
            for target, answer in (parsed, reversed(parsed))
        )
        return is_same and not _differ(*(each[0] for each in parsed if each))
    except (
        ArithmeticError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        MemoryError,
    ):
        return False


_ROUNDED: Final = 1e-4
"""Largest relative difference between a number and the same one with some of its decimals."""


def _differ(*both: Any) -> bool:
    """Whether two numbers differ that math-verify takes for the same: it drops tiny differences."""
    sympy = import_module("sympy")
    parts = [_parts(sympy, one) for one in both]
    if all(parts) and len(parts[0]) == len(parts[1]):
        return any(_differ(*pair) for pair in zip(*parts, strict=True))
    numbers = [one for one in both if isinstance(one, sympy.Expr) and one.is_number]
    if len(numbers) < 2 or not all(number.is_finite for number in numbers):  # noqa: PLR2004  # both
        return False
    is_exact = not any(number.has(sympy.Float) for number in numbers)
    # Enough digits that what cancels out is told from what is left; 0 where nothing is.
    apart = abs((numbers[0] - numbers[1]).evalf(15, maxn=2000))
    if is_exact:
        # What is not known to the last digit stays math-verify's: it is the same by algebra.
        return bool(apart.is_comparable and apart._prec > 1 and apart != 0)  # noqa: SLF001
    return bool(apart > _ROUNDED * max(abs(number.evalf(15)) for number in numbers))


def _parts(sympy: Any, one: Any) -> list[Any]:
    """Return the numbers of a list or an interval; nothing of what else there may be in it."""
    if not isinstance(one, sympy.Tuple | sympy.FiniteSet | sympy.Interval):
        return []
    numbers = [part for part in one.args if isinstance(part, sympy.Expr)]
    # By value, as a set has no order; what has none is left to math-verify.
    are_real = all(number.is_real for number in numbers)
    return sorted(numbers, key=float) if are_real else []


def _parse(math_verify: Any, text: str) -> Any:
    """Parse a whole expression, boxed so that nothing of it is passed over."""
    return math_verify.parse(f"$\\boxed{{{text}}}$", parsing_timeout=None)


def _limit_memory() -> None:
    try:
        resource = import_module("resource")
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = (
        _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    )
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()


_TIME_LIMIT_S: Final = 20.0
_START_LIMIT_S: Final = 120.0
_LONGEST: Final = 2000
"""Characters of an expression that algebra is asked about; a longer one must be written alike."""


def is_equivalent(one: str, other: str) -> bool:
    r"""Return whether two expressions are the same; which is the target makes no difference.

    A percent sign is a unit, as MATH's own grader has it: `50\%` is 50, and never 0.5. `x = 5` is
    5, and `x + y = 5` is an equation.

    Args:
        one: LaTeX or plain text.
        other: the same.

    Raises:
        MissingExtraError: math-verify is not installed, and algebra is needed.
    """
    one, other = unled(one, other)
    written = alike(one), alike(other)
    if not all(written):
        return False
    if written[0] == written[1]:
        return True
    decided = decided_by_form(one, other)
    if decided is not None:
        return decided
    if max(len(one), len(other)) > _LONGEST:
        return False
    return _ALGEBRA.is_same(*same_brackets(one, other))


class _Algebra:
    """math-verify in a process that is started when it is needed and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def is_same(self, one: str, other: str) -> bool:
        with self._lock:
            process = self._started()
            reply = _ask(
                process,
                json.dumps([one, other]).encode() + b"\n",
                limit_s=_TIME_LIMIT_S,
            )
            if not reply:
                self._end()
            return reply == b"1"

    def _started(self) -> subprocess.Popen[bytes]:
        is_ours = self._pid == os.getpid()  # a fork must not read another's answers
        if is_ours and self._process is not None and self._process.poll() is None:
            return self._process
        self._pid = os.getpid()
        self._process = subprocess.Popen(  # this interpreter, our own module
            [sys.executable, "-m", "rubric_eval.lm_tasks.answers.equivalence"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        atexit.register(self._end)
        if _ask(self._process, b"", limit_s=_START_LIMIT_S) != b"ready":
            self._end()
            remedy = install_command("rubric-eval", "lm-eval")
            raise MissingExtraError(
                f"comparing mathematical answers needs math-verify: {remedy}"
            )
        return self._process

    def _end(self) -> None:
        process = self._process
        self._process = None
        if process is not None and self._pid == os.getpid():
            with process:  # closes its pipes, and waits for it
                process.kill()


def _ask(process: subprocess.Popen[bytes], line: bytes, *, limit_s: float) -> bytes:
    """Send a line and return the one that comes back; b"" from one that ends or is too late."""
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        if process.stdin is None or process.stdout is None:
            return b""
        process.stdin.write(line)
        return process.stdout.readline().strip()
    except BrokenPipeError:
        return b""
    finally:
        timer.cancel()


_ALGEBRA: Final = _Algebra()
