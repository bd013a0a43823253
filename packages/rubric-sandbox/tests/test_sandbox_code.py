"""What honest code may do, and what no code gains."""

import textwrap
from collections.abc import Callable

import pytest

from rubric_judge import Tally
from rubric_judge.checks.python_tests import read_python_tests

Run = Callable[..., Tally]

# --- honest code ----------------------------------------------------------------------------------


def test_the_score_is_the_share_of_tests_that_pass(run: Run) -> None:
    assert run("def f(x): return x * x") == Tally(3, "")
    assert run("def f(x): return x * abs(x)").passed == 2
    assert run("def f(x): return 0").passed == 0


HONEST = {
    "sorts in place": """
        def f(xs): xs.sort()
        # tests
        a = [3, 1]
        f(a)
        assert a == [1, 3]
    """,
    "changes a dictionary": """
        def f(d): d['k'] = {1}
        # tests
        d = {}
        f(d)
        assert d == {'k': {1}}
    """,
    "a counter": """
        from collections import Counter as C
        def f(s): return C(s)
        # tests
        assert f('aa') == {'a': 2}
    """,
    "plain data": """
        def f(): return (1, 2.5, 3j, b'x', None, {'a': [True]}, 2**100, float('inf'))
        # tests
        assert f() == (1, 2.5, 3j, b'x', None, {'a': [True]}, 2**100, float('inf'))
        assert type(f()[0]) is int
    """,
    "fractions": """
        from fractions import Fraction
        def f(): return Fraction(1, 3)
        # tests
        from fractions import Fraction
        assert f() == Fraction(1, 3)
    """,
    "a generator": """
        def f(n):
          for i in range(n): yield i
        # tests
        assert list(f(3)) == [0, 1, 2]
        assert 2 in f(3)
    """,
    "a callback": """
        def f(g, xs): return [g(x) for x in xs]
        # tests
        assert f(lambda x: x + 1, [1, 2]) == [2, 3]
    """,
    "nested callbacks": """
        def f(g): return g(lambda x: x * 2)
        # tests
        assert f(lambda h: h(21)) == 42
    """,
    "an error": """
        def f(x):
          if x < 0: raise ValueError('neg')
          return x
        # tests
        try:
          f(-1)
        except ValueError as error:
          ok = str(error) == 'neg'
        assert ok
    """,
    "an error of its own": """
        class Odd(ValueError):
          def __init__(self, n): self.n = n
        def f(n): raise Odd(n)
        # tests
        from solution import Odd, f
        try:
          f(3)
        except Odd as error:
          n = error.n
        assert n == 3
    """,
    "objects": """
        class P:
          def __init__(self, x): self.x = x
          def __eq__(self, o): return self.x == o.x
          def __add__(self, o): return P(self.x + o.x)
          def __len__(self): return self.x
        # tests
        assert P(1) + P(2) == P(3)
        assert (P(1) + P(2)).x == 3
        assert len(P(4)) == 4
        p = P(1)
        p.x = 7
        assert p.x == 7
        assert isinstance(p, P)
        assert not isinstance(3, P)
    """,
    "asyncio": """
        import asyncio
        def f():
          async def g(): return 5
          return asyncio.run(g())
        # tests
        assert f() == 5
    """,
    "threads": """
        import threading
        def f():
          out = []
          t = threading.Thread(target=out.append, args=(1,))
          t.start(); t.join()
          return out
        # tests
        assert f() == [1]
    """,
    "unittest": """
        def f(): return 1
        # tests
        import unittest
        class T(unittest.TestCase):
          def test_a(self): self.assertEqual(f(), 1)
          def test_b(self): self.assertIsInstance(f(), int)
    """,
}


@pytest.mark.parametrize("case", HONEST)
def test_what_tests_of_honest_code_do_works(case: str, run: Run) -> None:
    code, tests = textwrap.dedent(HONEST[case]).split("# tests\n")
    check = read_python_tests(tests)

    assert run(code, tests) == Tally(check.n_tests, "")


# --- code that wants to pass without being right --------------------------------------------------

ATTACKS = {
    "exit 0": "import sys; sys.exit(0)",
    "hard exit": "import os; os._exit(0)",
    "hard exit when called": "import os\ndef f(x): os._exit(0)",
    "exit when called": "def f(x): raise SystemExit(0)",
    "always equal": """
        class Yes:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __bool__(self): return True
        def f(x): return Yes()
    """,
    "always equal number": """
        class Yes(int):
            def __eq__(self, other): return True
            def __int__(self): return 4
            __hash__ = int.__hash__
        def f(x): return Yes()
    """,
    "patched unittest": """
        import unittest
        unittest.TestCase.run = lambda self, result=None: result
        unittest.TestCase.assertEqual = lambda *a: None
        def f(x): return None
    """,
    "patched builtins": """
        import builtins
        builtins.AssertionError = type("Quiet", (Exception,), {})
        abs = lambda x: 0
        def f(x): return None
    """,
    "overwritten tests": """
        def test_negative(): pass
        def f(x):
            import __main__, gc, types
            for function in gc.get_objects():
                if isinstance(function, types.FunctionType) and function.__name__[:4] == "test":
                    function.__code__ = (lambda: None).__code__
    """,
    "frames": """
        import sys
        def f(x):
            frame = sys._getframe()
            while frame:
                for value in frame.f_locals.values():
                    if isinstance(value, dict) and "passed" in value: value["passed"] = 3
                frame = frame.f_back
    """,
    "printed token": """
        print('{"passed": 3, "note": ""}')
        import os
        for fd in range(64):
            try: os.write(fd, b'{"nonce": "", "ready": true}\\n{"passed": 3, "note": ""}\\n')
            except OSError: pass
        def f(x): return None
    """,
    "forged replies": """
        import os, struct, json
        def f(x):
            body = json.dumps(["ok", x * 0 + 4, []]).encode()
            for fd in range(64):
                try: os.write(fd, struct.pack(">I", len(body)) + body)
                except OSError: pass
            os._exit(0)
    """,
    "reads the tests": """
        import gc, os
        def f(x):
            seen = [s for s in gc.get_objects() if isinstance(s, str) and "assert f(2)" in s]
            for place in ("self/mem", f"{os.getppid()}/mem", f"{os.getppid()}/environ"):
                open(f"/proc/{place}", "rb").read(1)
            return 1 / len(seen)
    """,
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return None",
    "finaliser": "class D:\n  def __del__(self):\n    import os; os._exit(0)\ndef f(x): D()",
    "thread": """
        import threading, os, time
        threading.Thread(target=lambda: (time.sleep(.01), os._exit(0)), daemon=True).start()
        def f(x): time.sleep(.2)
    """,
    "kills the tester": """
        import os, signal
        def f(x):
            os.kill(os.getppid(), signal.SIGKILL)
    """,
    "skips": "import unittest\ndef f(x): raise unittest.SkipTest",
    "length of a guess": "class L(list):\n  def __eq__(s, o): return True\ndef f(x): return L()",
    "broken frame": """
        import os
        def f(x):
            for fd in range(3, 64):
                try: os.write(fd, b"\xff" * 9)
                except OSError: pass
    """,
    "deep value": "def f(x):\n  v = []\n  for _ in range(10**5): v = [v]\n  return v",
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_passes_a_test(attack: str, run: Run) -> None:
    assert run(ATTACKS[attack]).passed == 0


def test_no_comparison_shows_the_code_an_expected_value(run: Run) -> None:
    code = """
        seen = []
        class Spy:
            def __eq__(self, other): seen.append(other); return True
            def __sub__(self, other): seen.append(other); return 0.0
            def __lt__(self, other): seen.append(other); return True
            def __contains__(self, other): seen.append(other); return True
            def __iter__(self): return iter(())
        def f(): return Spy()
        def spied(): return len(seen)
    """
    tests = """
        assert f() == 1234
        assert 1234 == f()
        assert abs(f() - 1234) < 1e-6
        assert f() < 1234
        assert 1234 in f()
        assert spied() == 0
    """
    assert run(code, tests).passed == 1


def test_a_skipped_or_failing_method_is_no_passed_test(run: Run) -> None:
    tests = """
        import unittest
        class T(unittest.TestCase):
            def test_a(self): self.skipTest("why not")
            def test_b(self): self.assertEqual(f(), 2)
            @unittest.expectedFailure
            def test_c(self): self.assertEqual(f(), 2)
            def test_d(self): self.assertEqual(f(), 1)
    """
    assert run("def f(): return 1", tests).passed == 1
