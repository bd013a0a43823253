"""Verification methods that a program can execute: `directive` reads them, `execute` runs them.

The module of each kind of check says how it is written.
"""

from __future__ import annotations

from rubric_judge.verification.deciding import Verdict
from rubric_judge.verification.directive import (
    Directive,
    ProgramCheck,
    check_executable,
    parse_verification,
)
from rubric_judge.verification.execute import Programs

__all__ = [
    "Directive",
    "ProgramCheck",
    "Programs",
    "Verdict",
    "check_executable",
    "parse_verification",
]
