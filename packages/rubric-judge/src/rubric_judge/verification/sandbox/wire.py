"""What passes between tester and subject: frames of JSON, and in them data or references.

Data is None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
Fraction and Decimal; an instance of a subclass of one (a Counter, an enum of numbers, a named
tuple) passes as the plain value. All else passes as a reference that only its owner can follow.
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


def encode(value: Any, reference: Callable[[object], Wire]) -> Wire:
    """Turn a value into JSON.

    Args:
        value: any object.
        reference: makes what stands for an object that is no data.

    Returns:
        JSON. A tagged list stands for what JSON has no notation for.
    """
    if value is None or isinstance(value, (bool, str)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, (int, float, complex, Fraction, Decimal)):
        return _encode_number(value)
    if isinstance(value, (bytes, bytearray)):
        return ["bytes" if isinstance(value, bytes) else "bytearray", bytes(value).hex()]
    for kind in _COLLECTIONS.values():
        if isinstance(value, kind):
            return [kind.__name__, [encode(one, reference) for one in kind.__iter__(value)]]
    if isinstance(value, dict):
        items = cast("Any", dict).items(value)  # not what a subclass makes of it
        return ["dict", [[encode(key, reference), encode(one, reference)] for key, one in items]]
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
        FrameError: it is no value.
    """
    if not isinstance(message, (list, dict)):
        return message
    try:
        tag, *parts = cast("list[Wire]", message)
        if tag in _SCALARS:
            return _SCALARS[tag](*parts)
        if tag == "dict":
            return {decode(key, follow): decode(one, follow) for key, one in parts[0]}
        if tag in _COLLECTIONS:
            return _COLLECTIONS[tag](decode(one, follow) for one in parts[0])
        return follow(message)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        raise FrameError("a message holds no value") from None


def _integer(digits: str) -> int:
    return int(digits, 16)


def _complex(real: str, imaginary: str) -> complex:
    return complex(float(real), float(imaginary))


def _fraction(above: str, below: str) -> Fraction:
    return Fraction(int(above, 16), int(below, 16))


_COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_SCALARS: dict[str, Callable[..., object]] = {
    "int": _integer,
    "float": float,
    "complex": _complex,
    "fraction": _fraction,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
}
