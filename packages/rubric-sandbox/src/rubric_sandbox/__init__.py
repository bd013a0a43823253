"""Unit tests for untrusted code: two confined processes, and only plain data between them.

    judge ──(code, tests)──> tester ──(code)──> subject
          <──(passed)──────         <──(values)──

The tests run in the tester. The response's code runs in the subject, which never holds a test, an
expected value or a way to report: it can only answer calls. What it answers is data (`wire`), and
what is no data is a `Remote` object, which is equal to nothing but an object of the subject. So
code that exits, patches, prints, waits for `__del__` or inspects frames changes its own process.
It is forked before the tester reads a test, and of the names that it defines the tester takes only
those that the tests mention and that are nobody else's (`names_to_give`).

Both processes are confined before they read a line of code (`confine`): no privilege, no network,
no other process, no file, bounded memory and time.

`tester`, `subject` and what they import run under `python -I -S`: the standard library only.
"""

from rubric_core.lazy import attach

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
