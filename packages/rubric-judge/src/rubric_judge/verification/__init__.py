"""Verification methods that a program can execute: their grammar, and one module for each.

`directive` has the whole grammar in its docstring.
"""

from __future__ import annotations

from rubric_judge.verification.deciding import Verdict
from rubric_judge.verification.directive import Directive, ProgramCheck, parse_verification
from rubric_judge.verification.execute import Programs, check_executable

__all__ = [
    "Directive",
    "ProgramCheck",
    "Programs",
    "Verdict",
    "check_executable",
    "parse_verification",
]
