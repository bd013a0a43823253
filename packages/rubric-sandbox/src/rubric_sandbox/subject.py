"""The process that runs the response's code and answers calls; it holds no test."""

import _socket
import builtins
import contextlib
import operator
import sys
import types
from collections.abc import Callable
from typing import cast

from rubric_sandbox import wire
from rubric_sandbox.wire import Wire

_OPERATORS = "call delitem getitem index neg setitem"
_BUILTINS = (
    "abs bool float getattr hash int isinstance iter len next repr round setattr str"
)
_OPERATIONS: dict[str, Callable[..., object]] = {
    "enter": operator.methodcaller("__enter__"),
    "exit": operator.methodcaller("__exit__", None, None, None),
    **{name: getattr(builtins, name) for name in _BUILTINS.split()},
    **{
        name: getattr(operator, name) for name in (*wire.OPERATORS, *_OPERATORS.split())
    },
}


class _Subject:
    """Objects that were given out, by number, and the socket."""

    def __init__(self, tester: _socket.socket) -> None:
        self._tester = tester
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}

    def define(self, code: str) -> Wire:
        """Run the response's code; return what it defines, or what it raises."""
        module = types.ModuleType("solution")
        sys.modules["solution"] = module
        try:
            exec(  # noqa: S102
                compile(code, "<response>", "exec", dont_inherit=True), module.__dict__
            )
        # The response is untrusted code: whatever it raises is reported to the tester.
        except BaseException as error:  # noqa: BLE001
            return self._raised(error)
        public = {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_")
            and not hasattr(builtins, name)  # or the tests would trust a forged `abs`
            and not isinstance(value, types.ModuleType)
        }
        return ["ok", wire.encode(public, self._reference), []]

    def answer(self, request: Wire) -> Wire:
        """Do something with the objects; return what comes of it, or what it raises."""
        try:
            operation, *parts = request
            args = wire.decode(parts[0], self._follow)
            kwargs = wire.decode(parts[1], self._follow)
            value = _OPERATIONS[operation](*args, **kwargs)
            changed = [
                [place, wire.encode(argument, self._reference)]
                for place, argument in enumerate(args)
                if isinstance(argument, (list, dict, set, bytearray))
            ]
            return ["ok", wire.encode(value, self._reference), changed]
        except BaseException as error:  # noqa: BLE001  # as above
            return self._raised(error)

    def _raised(self, error: BaseException) -> Wire:
        try:
            arguments: Wire = wire.encode(error.args, _shortened)
        except BaseException:  # noqa: BLE001  # a __repr__ of the response's
            arguments = ["tuple", []]
        return ["raised", self._kinds(type(error)), arguments, self._number(error)]

    def _kinds(self, kind: type[BaseException]) -> Wire:
        kinds: list[Wire] = []
        for base in kind.__mro__:
            if not issubclass(base, BaseException):
                continue
            is_builtin = getattr(builtins, base.__name__, None) is base
            kinds.append(base.__name__ if is_builtin else self._number(base))
        return kinds

    def _number(self, value: object) -> int:
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)  # keeps its id from another
        return known

    def _reference(self, value: object) -> Wire:
        if isinstance(value, _Callback):
            return ["yours", value.number]
        number = self._number(value)
        kinds = cast("Wire", [])
        if isinstance(value, type) and issubclass(value, BaseException):
            kinds = self._kinds(value)
        return ["mine", number, kinds]

    def _follow(self, reference: Wire) -> object:
        match reference:
            case ["yours", int(number)]:
                return self._objects[number]
            case ["mine", int(number), _]:
                return _Callback(self, number)
            case _:
                raise wire.FrameError("no reference")

    def call_back(self, number: int, args: tuple[object, ...]) -> object:
        """Call a function of the tests."""
        wire.write_frame(
            self._tester, ["call", number, wire.encode(args, self._reference)]
        )
        # Until the function returns, it may call the response's code again.
        while (message := wire.read_frame(self._tester))[0] != "returned":
            wire.write_frame(self._tester, self.answer(message))
        ok, value = message[1:]
        if not ok:
            raise RuntimeError("a function of the tests raised")
        return wire.decode(value, self._follow)


def _shortened(value: object) -> Wire:
    return repr(value)[:200]


class _Callback:
    """A function of the tests, as the response's code sees it."""

    def __init__(self, subject: _Subject, number: int) -> None:
        self._subject = subject
        self.number = number

    def __call__(self, *args: object) -> object:
        return self._subject.call_back(self.number, args)


def serve(tester: _socket.socket) -> None:
    """Run the code that arrives first, then answer calls until the tester ends.

    Args:
        tester: where requests come from and answers go.
    """
    subject = _Subject(tester)
    wire.write_frame(tester, "confined")
    with contextlib.suppress(wire.FrameError):
        wire.write_frame(tester, subject.define(wire.read_frame(tester)))
        while True:
            wire.write_frame(tester, subject.answer(wire.read_frame(tester)))
