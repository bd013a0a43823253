"""What passes between tester and subject: frames of JSON, and in them data or references.

Data is None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
Fraction and Decimal; an instance of a subclass of one (a Counter, an enum of numbers, a named tuple)
passes as the plain value. Everything else passes as a reference that only its owner can follow.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

__all__ = ["LONGEST_FRAME", "FrameError", "decode", "encode", "read_frame", "write_frame"]

LONGEST_FRAME = 16_000_000
_EXACT_INTEGERS = 2**53

Wire = Any
"""A JSON value."""


class FrameError(Exception):
    """The other side is gone, or does not keep to the protocol."""


def write_frame(descriptor: int, message: Wire) -> None:
    """Send one message.

    Raises:
        FrameError: nobody reads any more, or the message is too long.
    """
    body = json.dumps(message).encode()
    if len(body) > LONGEST_FRAME:
        raise FrameError("a value is too large to pass on")
    left = memoryview(struct.pack(">I", len(body)) + body)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        raise FrameError("the other process is gone") from None


def read_frame(descriptor: int) -> Wire:
    """Wait for one message.

    Raises:
        FrameError: the other side has ended, or sends what is no message.
    """
    (length,) = struct.unpack(">I", _read(descriptor, 4))
    if length > LONGEST_FRAME:
        raise FrameError("a message is too long")
    try:
        return json.loads(_read(descriptor, length))
    except (ValueError, RecursionError):
        raise FrameError("a message is no JSON") from None


def _read(descriptor: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            raise FrameError("the other process has ended")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def encode(value: object, reference: Callable[[object], Wire]) -> Wire:
    """Turn a value into JSON.

    Args:
        value: any object.
        reference: makes what stands for an object that is no data.

    Returns:
        JSON. A tagged list stands for what JSON has no notation for.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            number = int.__int__(value)
            return number if abs(number) < _EXACT_INTEGERS else ["int", hex(number)]
        case float():
            number = float.__float__(value)
            return number if math.isfinite(number) else ["float", str(number)]
        case complex():
            return ["complex", repr(value.real), repr(value.imag)]
        case bytes() | bytearray():
            kind = "bytes" if isinstance(value, bytes) else "bytearray"
            return [kind, bytes(value).hex()]
        case Fraction():
            return ["fraction", hex(value.numerator), hex(value.denominator)]
        case Decimal():
            return ["decimal", str(value)]
        case list() | tuple() | set() | frozenset():
            kind = next(one for one in (list, tuple, set, frozenset) if isinstance(value, one))
            items = kind.__iter__(cast("Any", value))
            return [kind.__name__, [encode(item, reference) for item in items]]
        case dict():
            items = dict.items(cast("dict[object, object]", value))
            pairs = [[encode(key, reference), encode(item, reference)] for key, item in items]
            return ["dict", pairs]
        case _:
            return reference(value)


def decode(message: Wire, follow: Callable[[Wire], object]) -> Any:  # noqa: ANN401  # any value
    """Turn JSON into a value; nothing in it can name code.

    Args:
        message: what `encode` made, or what a hostile process wrote.
        follow: turns a reference into an object.

    Returns:
        The value.

    Raises:
        FrameError: it is no value.
    """
    if not isinstance(message, list):
        if isinstance(message, dict):
            raise FrameError("a message holds no value")
        return message
    try:
        return _decode_tagged(cast("list[Wire]", message), follow)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        raise FrameError("a message holds no value") from None


def _decode_tagged(message: list[Wire], follow: Callable[[Wire], object]) -> Any:  # noqa: ANN401
    match message:
        case ["int", str(digits)]:
            return int(digits, 16)
        case ["float", str(name)]:
            return float(name)
        case ["complex", str(real), str(imaginary)]:
            return complex(float(real), float(imaginary))
        case ["bytes", str(digits)]:
            return bytes.fromhex(digits)
        case ["bytearray", str(digits)]:
            return bytearray.fromhex(digits)
        case ["fraction", str(above), str(below)]:
            return Fraction(int(above, 16), int(below, 16))
        case ["decimal", str(digits)]:
            return Decimal(digits)
        case ["dict", list(pairs)]:
            return {decode(key, follow): decode(item, follow) for key, item in pairs}
        case [("list" | "tuple" | "set" | "frozenset") as kind, list(items)]:
            make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return make(decode(item, follow) for item in items)
        case _:
            return follow(message)
