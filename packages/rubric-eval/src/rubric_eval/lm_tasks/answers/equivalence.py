"""Equivalence of two mathematical expressions.

Expressions that are written alike, or are the same number, need no algebra. math-verify decides the
rest in a process of its own: an expression comes from a model, and a tower of powers in it could
block the process that evaluates it or fill its memory. That process has a time and a memory limit;
expressions that exceed them count as different.
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
from functools import partial
from importlib import import_module
from typing import Any

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns, rewriting

_TABLE = toml_beside(__file__, "rewrites.toml")
_SIGNS = str.maketrans(_TABLE["signs"])
_IN_ONE_FORM = rewriting(_TABLE["rewrites"]["tidy"])
_WITHOUT_DRESS = rewriting(_TABLE["rewrites"]["bare"].values())
_WORDED = re.compile(_TABLE["rewrites"]["bare"]["words"][0])
_PATTERNS = patterns(toml_beside(__file__, "patterns.toml")["equivalence"])
_LONG_WORD = 4
_LONGEST_NAME = 40


def tidy(text: str) -> str:
    """Return an expression with signs, fractions, separators and percent in one form."""
    text = _IN_ONE_FORM(text.translate(_SIGNS))
    return _PATTERNS["tail"].sub("", text).strip()


def alike(text: str) -> str:
    """Return a text that is the same for all spellings of an expression that need no algebra."""
    return _PATTERNS["blanks"].sub("", _bare(text))


def unled(first: str, second: str) -> tuple[str, str]:
    """Return both tidied, with `x = 5` as 5 unless the other is an equation that is not of x.

    Only a name, or a calculation without one, is taken away before the sign; anything else there
    makes an equation.
    """
    first = tidy(first)
    second = tidy(second)
    first_name, _, _ = first.rpartition("=")
    second_name, _, _ = second.rpartition("=")
    if first_name and second_name and alike(first_name) == alike(second_name):
        first = _behind_names(first)
        second = _behind_names(second)
    elif "=" in first and not _PATTERNS["relation"].search(second):
        first = _behind_names(first)
    elif "=" in second and not _PATTERNS["relation"].search(first):
        second = _behind_names(second)
    return first, second


def decided_by_form(first: str, second: str) -> bool | None:
    """Decide on numbers, words, bases, and values beside equations; None for everything else."""
    first_number = _number(first)
    second_number = _number(second)
    if first_number is not None and second_number is not None:
        return first_number == second_number
    words = _words(first, second)
    if words is not None:
        first_words, second_words = words
        return first_words.casefold() == second_words.casefold()
    first_base = _base(first)
    second_base = _base(second)
    have_bases = first_base is not None and second_base is not None
    has_number = first_number is not None or second_number is not None
    if first_base != second_base and (have_bases or has_number):
        return False  # 40 is not 40 of base nine
    brackets = {_brackets(first), _brackets(second)}
    if "{}" in brackets and brackets & {"()", "[]", "(]", "[)"}:
        return False  # a set has no order
    if _is_beside_equation(first, second) or _is_beside_equation(second, first):
        return False
    return None


def _is_beside_equation(text: str, equation: str) -> bool:
    """Return whether a text is a single value and the other one an equation."""
    if "=" not in equation:
        return False
    if _PATTERNS["relation"].search(text):
        return False
    return re.search(r",|\b(?:or|and)\b|\\pm", text) is None


def same_brackets(first: str, second: str) -> tuple[str, str]:
    """Return both, a bare list in the brackets of the other, so that its order counts too."""
    ordered = ("()", "[]", "(]", "[)")
    first_brackets = _brackets(first)
    second_brackets = _brackets(second)
    if first_brackets in ordered and second_brackets == ",":
        opening, closing = first_brackets
        return first, f"{opening}{second}{closing}"
    if second_brackets in ordered and first_brackets == ",":
        opening, closing = second_brackets
        return f"{opening}{first}{closing}", second
    return first, second


def _bare(text: str) -> str:
    text = _PATTERNS["tail"].sub("", _WITHOUT_DRESS(text)).strip()
    if re.fullmatch(r"\([A-Za-z]\)", text):
        return re.sub(r"[()]", "", text)
    return text


def _behind_names(text: str) -> str:
    *names, value = text.split("=")
    value = value.strip()
    if value and all(_is_name(name) for name in names):
        return value
    return text


def _is_name(text: str) -> bool:
    if not text.strip() or len(text) > _LONGEST_NAME:
        return False
    if _PATTERNS["relation"].search(text):
        return False
    plain = _PATTERNS["command"].sub("", text)
    has_letter = re.search(r"[A-Za-z]", plain) is not None
    return not has_letter or not _PATTERNS["operator"].search(text)


def _number(text: str) -> Decimal | None:
    text = _bare(text).strip()  # blanks count: `1, 200` is two numbers
    if _PATTERNS["grouped"].fullmatch(text):
        text = re.sub("[ ,]", "", text)
    if not _PATTERNS["plain"].fullmatch(text):
        return None
    return Decimal(text)


def without_base(text: str) -> str:
    """Return the digits of a numeral that names its base, and any other text unchanged."""
    if not _base(text):
        return text
    digits, _, _ = alike(text).partition("_")
    return digits


def _base(text: str) -> str | None:
    match = _PATTERNS["base"].fullmatch(alike(text))
    if match is None:
        return None
    return match.group(1)


def _words(first: str, second: str) -> tuple[str, str] | None:
    """Return both if they are words: as products, their letters would have no order."""
    first_words = " ".join(_bare(first).split())
    second_words = " ".join(_bare(second).split())
    for words in (first_words, second_words):
        if not _PATTERNS["words"].fullmatch(words):
            return None
    is_text = _WORDED.search(first) or _WORDED.search(second)
    are_long = min(len(first_words), len(second_words)) >= _LONG_WORD
    if not is_text and not are_long:
        return None
    return first_words, second_words


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
        elif char == "," and depth <= 1 and (depth or closes_at < 0):
            commas += 1
    if not commas:
        return ""
    is_whole = text[:1] in "([⦃" and closes_at == len(text) - 1
    if is_whole:
        brackets = text[0] + text[-1]
        return brackets.replace("⦃", "{").replace("⦄", "}")
    if re.search(r"[(\[⦃]", text):
        return ""
    return ","


_MEMORY_BYTES = 4 * 2**30


def main() -> None:
    """Compare the pair of expressions on each line of the input until it ends."""
    _limit_memory()
    try:
        math_verify = import_module("math_verify")
    except ImportError:
        print("missing", flush=True)  # noqa: T201  # the protocol
        return
    logging.disable()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        first, second = json.loads(line)
        is_same = _is_same(math_verify, first, second)
        print("1" if is_same else "0", flush=True)  # noqa: T201


def _is_same(math_verify: Any, first: str, second: str) -> bool:
    """Compare two expressions without a time limit of its own.

    The parent process limits the time: it can end this process, whereas a signal cannot interrupt
    the computation of a power. math-verify accepts an interval for an inequality but not the
    reverse, so that each expression is the target once.
    """
    first_parsed = _parse(math_verify, first)
    second_parsed = _parse(math_verify, second)
    verify = partial(math_verify.verify, timeout_seconds=None)
    try:
        is_same = verify(first_parsed, second_parsed)
        if not is_same:
            is_same = verify(second_parsed, first_parsed)
        if not is_same:
            return False
        values = [parsed[0] for parsed in (first_parsed, second_parsed) if parsed]
        return not _differ(*values)
    except (
        ArithmeticError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        MemoryError,
    ):
        return False


_ROUNDED = 1e-4
"""Largest relative difference between a number and its rounded form."""


def _differ(*values: Any) -> bool:
    """Return whether two numbers differ by so little that math-verify takes them as the same."""
    sympy = import_module("sympy")
    parts = [_parts(sympy, value) for value in values]
    if all(parts) and len(parts[0]) == len(parts[1]):
        return any(_differ(*pair) for pair in zip(*parts, strict=True))
    expressions = [value for value in values if isinstance(value, sympy.Expr)]
    numbers = [value for value in expressions if value.is_number]
    if len(numbers) < 2:  # noqa: PLR2004  # both
        return False
    if not all(number.is_finite for number in numbers):
        return False
    is_exact = not any(number.has(sympy.Float) for number in numbers)
    # Enough digits to tell a small difference from one that cancels out, which is 0.
    gap = abs((numbers[0] - numbers[1]).evalf(15, maxn=2000))
    if is_exact:
        # If the last digit is unknown, math-verify's verdict stands: the same by algebra.
        return bool(gap.is_comparable and gap._prec > 1 and gap != 0)  # noqa: SLF001
    largest = max(abs(number.evalf(15)) for number in numbers)
    return bool(gap > _ROUNDED * largest)


def _parts(sympy: Any, value: Any) -> list[Any]:
    """Return the numbers in a list, set or interval, sorted; none if any of them is not real."""
    if not isinstance(value, sympy.Tuple | sympy.FiniteSet | sympy.Interval):
        return []
    numbers = [part for part in value.args if isinstance(part, sympy.Expr)]
    # Sorted by value, as a set has no order; numbers without an order are left to math-verify.
    if not all(number.is_real for number in numbers):
        return []
    return sorted(numbers, key=float)


def _parse(math_verify: Any, text: str) -> Any:
    """Parse an expression, boxed so that none of it is skipped."""
    return math_verify.parse(f"$\\boxed{{{text}}}$", parsing_timeout=None)


def _limit_memory() -> None:
    try:
        resource = import_module("resource")
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_BYTES
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()


_TIME_LIMIT_S = 20.0
_START_LIMIT_S = 120.0
_LONGEST = 2000
"""Characters of an expression that algebra compares, at most; longer ones must be written alike."""


def is_equivalent(first: str, second: str) -> bool:
    r"""Return whether two expressions are the same; which is the target makes no difference.

    A percent sign is a unit, as in MATH's own grader: `50\%` is 50, and never 0.5. `x = 5` is
    5, and `x + y = 5` is an equation.

    Args:
        first: LaTeX or plain text.
        second: LaTeX or plain text.

    Raises:
        MissingExtraError: math-verify is not installed, and algebra is needed.
    """
    first, second = unled(first, second)
    first_spelling = alike(first)
    second_spelling = alike(second)
    if not first_spelling or not second_spelling:
        return False
    if first_spelling == second_spelling:
        return True
    decided = decided_by_form(first, second)
    if decided is not None:
        return decided
    if max(len(first), len(second)) > _LONGEST:
        return False
    return _ALGEBRA.is_same(*same_brackets(first, second))


class _Algebra:
    """math-verify in a process that starts on first use, and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def is_same(self, first: str, second: str) -> bool:
        request = json.dumps([first, second]).encode() + b"\n"
        with self._lock:
            process = self._started()
            reply = _ask(process, request, limit_s=_TIME_LIMIT_S)
            if not reply:
                self._end()
            return reply == b"1"

    def _started(self) -> subprocess.Popen[bytes]:
        is_ours = self._pid == os.getpid()  # a fork must not read its parent's replies
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


def _ask(
    process: subprocess.Popen[bytes],
    line: bytes,
    *,
    limit_s: float,
) -> bytes:
    """Send a line and return the reply; b"" if the process ends or exceeds the time limit."""
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


_ALGEBRA = _Algebra()
