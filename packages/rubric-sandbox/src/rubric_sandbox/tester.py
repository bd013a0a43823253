"""The process that runs the tests; its standard input holds code and tests, its output the result.

argument: {"isolation", "timeout_s", "cpu_s", "memory_mb"}, the settings
in:       a line of JSON: {"code", "tests", "nonce"}
out:      {"nonce", "ready": true}, then {"nonce", "passed", "note"}; or {"nonce", "refused": why}

The subject is forked before the standard input is read: nothing of the tests is in the memory that
it inherits, and `hide_memory` keeps it out of this process's.
"""

import _socket
import _thread
import ast
import builtins
import json
import os
import signal
import symtable
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from rubric_sandbox import confine, seccomp, wire
from rubric_sandbox.subject import serve


def main(settings: dict[str, Any]) -> None:
    """Fork the subject, confine both, and only then read the tests; run them and report."""
    os.chdir("/")
    report_fd = os.dup(1)
    # Without a handler, the alarm ends this process.
    signal.setitimer(signal.ITIMER_REAL, settings["timeout_s"])
    confine.set_limits(
        cpu_s=settings["cpu_s"], memory_bytes=settings["memory_mb"] * 2**20
    )
    subject, of_subject = _socket.socketpair()
    refused = ""
    try:
        listeners = _start_subject(subject, of_subject, isolation=settings["isolation"])
        confine.hide_memory()
        confine.silence(keep=(0, report_fd, subject.fileno(), *listeners))
        confine.confine(settings["isolation"])
        for listener in listeners:
            _thread.start_new_thread(seccomp.approve_process_starts, (listener,))
    except (OSError, wire.FrameError) as error:
        refused = str(error)
    request = cast("dict[str, Any]", json.loads(sys.stdin.readline()))

    def report(message: dict[str, object]) -> None:
        os.write(
            report_fd,
            json.dumps({"nonce": request["nonce"], **message}).encode() + b"\n",
        )

    if refused:
        report({"refused": refused})
    else:
        report({"ready": True})
        passed, note = _run(wire.Connection(subject), request["code"], request["tests"])
        report({"passed": passed, "note": note})


def _start_subject(
    subject: _socket.socket, of_subject: _socket.socket, *, isolation: confine.Isolation
) -> list[int]:
    """Fork the subject before a test is read, and wait until it is confined.

    Args:
        subject: the socket to it.
        of_subject: the subject's own end; closed.
        isolation: how much it is confined.

    Returns:
        Descriptors where the kernel asks before it starts a thread; empty if the kernel cannot.
    """
    tester = os.getpid()
    if os.fork() == 0:
        try:
            confine.die_with_parent(tester)
            confine.silence(keep=(of_subject.fileno(),))
            seccomp.forward_process_starts(of_subject)
            confine.confine(isolation)
            serve(of_subject)
        finally:
            os._exit(0)
    of_subject.close()
    listeners = seccomp.receive_process_starts(subject)
    if wire.read_frame(subject) != "confined":
        raise wire.FrameError("the subject could not be confined")
    return listeners


def _run(connection: wire.Connection, code: str, tests: str) -> tuple[int, str]:
    """Return the number of tests that passed, and why not all did."""
    try:
        defined = connection.define(code)
    # The response's code is untrusted, and so is what it does within a test below.
    except BaseException as error:  # noqa: BLE001
        return 0, f"the response's code raised {_name(error)}"
    names = names_to_give(defined, tests)
    module = types.ModuleType("solution")
    vars(module).update(names)
    sys.modules["solution"] = module
    passed = 0
    first_failure = ""
    for test in _tests(tests, {**names, "__name__": "tests"}):
        try:
            if test() is not False:
                passed += 1
        except BaseException as error:  # noqa: BLE001
            first_failure = (
                first_failure or f"the first failed test raised {_name(error)}"
            )
    try:
        connection.ask("str", "")
    except BaseException:  # noqa: BLE001
        return 0, "the response's code ended its own process"
    return passed, first_failure


def _name(error: BaseException) -> str:
    """Return what a report may call an exception."""
    # The name of a class of the response's code would carry its words into the report.
    return (
        type(error).__name__
        if type(error).__module__ in {"builtins", __name__}
        else "an error"
    )


def names_to_give(defined: dict[str, object], tests: str) -> dict[str, object]:
    """Choose what the tests take from the response's code.

    Decided here, in the tester: the subject can send any names. A forged `sorted`, `__builtins__`
    or `math` would make a test compare what the response likes.

    Args:
        defined: what the subject says its code defines.
        tests: the source of the tests.

    Returns:
        What the tests mention, but for builtins, names with a leading underscore, and names that
        the tests bind themselves, wherever they do.
    """
    mentioned: set[str] = set()
    from_solution: set[str] = set()
    for node in ast.walk(ast.parse(tests)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                mentioned.add(name)
            case ast.Constant(value=str(name)):  # getattr(solution, "name")
                mentioned.add(name)
            case ast.ImportFrom(module="solution", names=aliases):
                from_solution.update(alias.name for alias in aliases)
            case _:
                continue
    own = set(_bound(symtable.symtable(tests, "<tests>", "exec"))) - from_solution
    return {
        name: defined[name]
        for name in (mentioned & defined.keys()) - own
        if not name.startswith("_") and not hasattr(builtins, name)
    }


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that a module binds: imports, functions, classes, variables."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        binds = symbol.is_assigned() or symbol.is_imported()
        if binds and (top or symbol.is_declared_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _bound(inner)


def _tests(source: str, names: dict[str, object]) -> Iterator[Callable[[], object]]:
    """Yield the tests, each after what stands above it has run."""
    functions: list[str] = []
    for statement in ast.parse(source).body:
        code = compile(
            ast.Module([statement], []), "<tests>", "exec", dont_inherit=True
        )
        run = partial(exec, code, names)  # the rubric's own tests
        if isinstance(statement, ast.Assert):
            yield run
            continue
        try:
            run()
        except BaseException as error:  # noqa: BLE001
            # Preparation failed: report it as a failed test.
            yield partial(_fail, error)
            continue
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            functions.append(statement.name)
    for name in functions:
        definition = names.get(name)
        if isinstance(definition, types.FunctionType) and name.startswith("test"):
            yield definition
        elif isinstance(definition, type):
            yield from _methods(definition)


def _fail(error: BaseException) -> object:
    raise error


def _methods(kind: type) -> Iterator[Callable[[], object]]:
    """Yield the tests of a class of unittest; no other class has any."""
    # Imported here: it takes as long as everything else, and most tests do not need it.
    import unittest

    if not issubclass(kind, unittest.TestCase):
        return
    for case in unittest.defaultTestLoader.loadTestsFromTestCase(kind):

        def passes(case: unittest.TestCase | unittest.TestSuite = case) -> bool:
            result = unittest.TestResult()
            case.run(result)
            # A skipped test does not count as passed.
            return (
                result.wasSuccessful()
                and not result.skipped
                and not result.expectedFailures
            )

        yield passes
