"""Messages between tester and subject: frames of JSON, and objects that stay on one side.

Data is None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
Fraction and Decimal; an instance of a subclass of one (a Counter, an enum of numbers, a named
tuple) passes as the plain value. All else passes as a reference that only its owner can follow, in
the sender's words: "mine" is an object that the sender keeps, "yours" one that the reader keeps.
"""

from __future__ import annotations

import _socket
import builtins
import json
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, cast

LONGEST_FRAME = 16_000_000
_EXACT_INTEGERS = 2**53
"""Below it, every reader of JSON has an integer exactly."""

Wire = Any
"""A JSON value."""

OPERATORS = (
    "eq",
    "lt",
    "le",
    "gt",
    "ge",
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "matmul",
    "and_",
    "or_",
    "xor",
)
"""Operators of two objects that the tests may use on those of the response."""


class FrameError(Exception):
    """The other side is gone, or does not keep to the protocol."""


def write_frame(peer: _socket.socket, message: Wire) -> None:
    """Send one message.

    Raises:
        FrameError: nobody reads any more, or the message is too long.
    """
    body = json.dumps(message).encode()
    if len(body) > LONGEST_FRAME:
        raise FrameError("a value is too large to pass on")
    try:
        peer.sendall(struct.pack(">I", len(body)) + body)
    except OSError:
        raise FrameError("the other process is gone") from None


def read_frame(peer: _socket.socket) -> Wire:
    """Wait for one message.

    Raises:
        FrameError: the other side has ended, or sends something other than a message.
    """
    (length,) = struct.unpack(">I", _read(peer, 4))
    if length > LONGEST_FRAME:
        raise FrameError("a message is too long")
    try:
        return json.loads(_read(peer, length))
    except (ValueError, RecursionError):
        raise FrameError("a message is no JSON") from None


def _read(peer: _socket.socket, length: int) -> bytes:
    body = b""
    # One pass, unless a signal interrupts.
    while missing := length - len(body):
        part = peer.recv(missing, _socket.MSG_WAITALL)
        if not part:
            raise FrameError("the other process has ended")
        body += part
    return body


def encode(value: Any, reference: Callable[[object], Wire]) -> Wire:
    """Turn a value into JSON.

    Args:
        value: any object.
        reference: encodes an object that is not plain data.

    Returns:
        JSON. A tagged list stands for what JSON has no notation for.
    """
    if value is None or isinstance(value, (bool, str)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, (int, float, complex, Fraction, Decimal)):
        return _encode_number(value)
    if isinstance(value, (bytes, bytearray)):
        return [
            "bytes" if isinstance(value, bytes) else "bytearray",
            bytes(value).hex(),
        ]
    for kind in _COLLECTIONS.values():
        if isinstance(value, kind):
            return [
                kind.__name__,
                [encode(item, reference) for item in kind.__iter__(value)],
            ]
    if isinstance(value, dict):
        # Ignore a subclass's override.
        items = cast("Any", dict).items(value)
        return [
            "dict",
            [[encode(key, reference), encode(item, reference)] for key, item in items],
        ]
    return reference(value)


def _encode_number(value: complex | Fraction | Decimal) -> Wire:
    if isinstance(value, int):
        whole = int.__int__(value)
        return whole if abs(whole) < _EXACT_INTEGERS else ["int", hex(whole)]
    if isinstance(value, float):
        real = float.__float__(value)
        return real if math.isfinite(real) else ["float", str(real)]
    if isinstance(value, Fraction):
        return ["fraction", hex(value.numerator), hex(value.denominator)]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    return ["complex", repr(value.real), repr(value.imag)]


def decode(message: Wire, follow: Callable[[Wire], object]) -> Any:
    """Turn JSON into a value; nothing in it can name code.

    Args:
        message: what `encode` made, or what a hostile process wrote.
        follow: turns a reference into an object.

    Returns:
        The value.

    Raises:
        FrameError: it holds no value.
    """
    if not isinstance(message, (list, dict)):
        return message
    try:
        tag, *parts = cast("list[Wire]", message)
        if tag in _SCALARS:
            return _SCALARS[tag](parts)
        if tag == "dict":
            return {decode(key, follow): decode(item, follow) for key, item in parts[0]}
        if tag in _COLLECTIONS:
            return _COLLECTIONS[tag](decode(item, follow) for item in parts[0])
        return follow(message)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        raise FrameError("a message holds no value") from None


_COLLECTIONS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_SCALARS: dict[str, Callable[[list[Any]], object]] = {
    "int": lambda parts: int(parts[0], 16),
    "float": lambda parts: float(parts[0]),
    "complex": lambda parts: complex(*map(float, parts)),
    "fraction": lambda parts: Fraction(*(int(part, 16) for part in parts)),
    "decimal": lambda parts: Decimal(parts[0]),
    "bytes": lambda parts: bytes.fromhex(parts[0]),
    "bytearray": lambda parts: bytearray.fromhex(parts[0]),
}


class Remote:
    """An object of the subject that is not plain data.

    Calls, attributes, items and iteration are forwarded. A comparison or a sum is forwarded only
    between two objects of the subject: next to data it is refused, because the subject would then
    see the expected value and could say that it equals it.
    """

    __slots__ = ("_link", "_number")
    _link: Connection
    _number: int

    def __init__(self, link: Connection, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __instancecheck__(self, instance: object) -> bool:
        return (
            isinstance(instance, Remote)
            and self._link.ask("isinstance", instance, self) is True
        )

    def __exit__(self, *exc_info: object) -> None:
        self._link.ask("exit", self)


def _forwarder(name: str, kind: type | None) -> Callable[..., object]:
    def forward(self: Remote, *args: object, **kwargs: object) -> object:
        if name in OPERATORS and not isinstance(args[0], Remote):
            return NotImplemented
        value = self._link.ask(name, self, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]
        if kind is not None and type(value) is not kind:
            raise TypeError(
                f"{name}() of an object of the response is no {kind.__name__}"
            )
        return value

    return forward


_FORWARDED: dict[str, type | None] = {
    **dict.fromkeys(
        ("call", "getattr", "setattr", "getitem", "setitem", "delitem", "enter")
    ),  # any kind, as is true of the next line
    **dict.fromkeys(("next", "round", "abs", "neg", *OPERATORS)),
    **dict.fromkeys(("len", "index", "int", "hash"), int),
    **dict.fromkeys(("str", "repr"), str),
    "float": float,
    "bool": bool,
    "iter": Remote,
}
"""Operations forwarded to the response's code, each with the only kind of answer it may give."""
for _name, _kind in _FORWARDED.items():
    setattr(Remote, f"__{_name.rstrip('_')}__", _forwarder(_name, _kind))


class Connection:
    """The socket to the subject, and the objects that have passed through it."""

    def __init__(self, subject: _socket.socket) -> None:
        self._subject = subject
        self._remotes: dict[int, object] = {}
        self._kinds: dict[int, type[BaseException]] = {}
        self._functions: list[Callable[..., object]] = []

    def define(self, code: str) -> dict[str, object]:
        """Have the subject run the response's code; return what it defines.

        Raises:
            BaseException: what the code raises.
            FrameError: the subject ended.
        """
        write_frame(self._subject, code)
        value, _ = self._result()
        if type(value) is not dict:
            raise FrameError("the subject defines nothing")
        return cast("dict[str, object]", value)

    def ask(self, operation: str, /, *args: object, **kwargs: object) -> Any:
        """Have the subject do something with its objects.

        Raises:
            BaseException: what the response's code raises.
            FrameError: the subject ended, or an argument cannot be passed on.
        """
        request = [
            operation,
            encode(args, self._reference),
            encode(kwargs, self._reference),
        ]
        write_frame(self._subject, request)
        value, changed = self._result()
        for place, after in changed:
            _write_back(args[place], after)
        return value

    def _result(self) -> tuple[object, list[tuple[int, object]]]:
        """Wait for the result of a request; meanwhile, call what the subject asks for.

        Returns:
            The value, and by place each argument that the response's code changed.

        Raises:
            BaseException: what the response's code raised.
            FrameError: the subject ended, or sent something else.
        """
        while True:
            match read_frame(self._subject):
                case ["ok", value, changed]:
                    after = [
                        (place, decode(item, self._follow)) for place, item in changed
                    ]
                    return decode(value, self._follow), after
                case ["raised", [_, *_] as kinds, arguments, number]:
                    self._raise(kinds, arguments, number)
                case ["call", number, arguments]:
                    write_frame(self._subject, self._call(number, arguments))
                case _:
                    raise FrameError("the subject sent no answer")

    def _call(self, number: int, args: Wire) -> Wire:
        """Call a function of the tests for the response's code; return the message for it."""
        try:
            value = self._functions[number](*decode(args, self._follow))
            return ["returned", True, encode(value, self._reference)]
        # A test's own function may raise anything: its error goes to the code that called it.
        except Exception:  # noqa: BLE001
            return ["returned", False, None]

    def _raise(self, kinds: Sequence[Wire], arguments: Wire, number: int) -> NoReturn:
        kind = self._error_class(kinds)
        args = decode(arguments, self._follow)
        error = kind.__new__(kind)
        error.args = args if isinstance(args, tuple) else ()
        if isinstance(kinds[0], int):
            error.__dict__["_remote"] = Remote(self, number)
        raise error

    def _error_class(self, kinds: Sequence[Wire]) -> type[BaseException]:
        """Return the class of an error: a built-in one by name, one of the response's by number.

        After a number stand the kinds that it derives from.
        """
        first, *others = kinds
        if isinstance(first, str):
            kind = getattr(builtins, first, None)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                return kind
        elif isinstance(first, int) and others:
            if first not in self._kinds:
                # A separate class, so that `except` can name it; attributes are the subject's.
                base = self._error_class(others)
                self._kinds[first] = type(
                    "ResponseError", (base,), {"__getattr__": _attribute}
                )
            return self._kinds[first]
        raise FrameError("the subject raised what is no error")

    def _reference(self, value: object) -> Wire:
        if isinstance(value, Remote):
            return ["yours", value._number]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        for number, kind in self._kinds.items():
            if value is kind:
                return ["yours", number]
        if not callable(value):
            raise FrameError(
                f"a test cannot pass a {type(value).__name__} to the response's code; "
                "it can pass data, functions and the response's own objects"
            )
        self._functions.append(value)
        return ["mine", len(self._functions) - 1, []]

    def _follow(self, reference: Wire) -> object:
        match reference:
            case ["yours", int(number)]:
                return self._functions[number]
            case ["mine", int(number), []]:
                return self._remotes.setdefault(number, Remote(self, number))
            case ["mine", int(_), [_, *_] as kinds]:
                return self._error_class(kinds)
            case _:
                raise FrameError("no reference")


def _attribute(error: BaseException, name: str) -> object:
    return getattr(vars(error)["_remote"], name)


def _write_back(argument: Any, after: Any) -> None:
    """Change an argument as the response's code changed its copy."""
    if type(argument) is not type(after):
        return
    if isinstance(argument, (list, bytearray)):
        argument[:] = after
    elif isinstance(argument, (dict, set)):
        argument.clear()
        cast("Any", argument).update(after)
