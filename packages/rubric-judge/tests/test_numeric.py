import contextlib
import math
import time

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_judge import VerificationError, parse_verification
from rubric_judge.checks.numeric import NumericCheck, read_numeric, states_number
from rubric_judge.checks.quantities import (
    plain_numbers,
    read_number,
    read_quantities,
    to_unit,
)


def _states(directive: str, response: str) -> bool:
    check = parse_verification(f"numeric: {directive}")
    assert isinstance(check, NumericCheck)
    return states_number(check, response)


@pytest.mark.parametrize(
    ("directive", "check"),
    [
        ("6.02×10^23 ± 1% [1/mol]", NumericCheck(6.02e23, 6.02e21, "1/mol")),
        ("6.02e23; where=any", NumericCheck(6.02e23, 0, where="any")),
        ("9.81 ± 0.05; unit=m/s^2; where=answer", NumericCheck(9.81, 0.05, "m/s^2", "answer")),
        (r"\frac{3}{4} \pm 0.01", NumericCheck(0.75, 0.01)),
        ("−5 °C", NumericCheck(-5, 0, "°C")),
        ("12.5 [%]", NumericCheck(12.5, 0, "%")),
        ("3 apples", NumericCheck(3, 0, "apples")),
        ("1,000 ± 10", NumericCheck(1000, 10)),
    ],
)  # fmt: skip
def test_a_numeric_directive_is_read(directive: str, check: NumericCheck) -> None:
    assert parse_verification(f"numeric: {directive}") == check


@pytest.mark.parametrize(
    ("directive", "remedy"),
    [
        ("5; where=first", "option 1 is unknown"),
        ("5; unit=", "option 1 is unknown"),
        ("5; where=any; where=any", "option 2 is unknown"),
        ("5 m; unit=s", "two units"),
        ("5 ± -1", "VALUE ± TOLERANCE"),
        ("5 ± x", "VALUE ± TOLERANCE"),
        ("1e999", "VALUE ± TOLERANCE"),
        ("", "VALUE ± TOLERANCE"),
        ("1" * 501, "longer than"),
    ],
)
def test_a_wrong_numeric_directive_is_refused(directive: str, remedy: str) -> None:
    with pytest.raises(VerificationError, match=remedy):
        parse_verification(f"numeric: {directive}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42), ("-3", -3), ("−3", -3), ("+3", 3), (".5", 0.5), ("1,234,567.5", 1234567.5),
        ("1\u2009234", 1234), (r"1\,234", 1234), ("1{,}234", 1234), ("6.02e23", 6.02e23),
        ("6.02E+23", 6.02e23), ("6.02×10^23", 6.02e23), ("6.02 × 10²³", 6.02e23),
        ("6.02 · 10²³", 6.02e23), (r"6.02 \times 10^{23}", 6.02e23), ("6.02 x 10^23", 6.02e23),
        ("6.02*10**23", 6.02e23), (r"$6.02 \cdot 10^{23}$", 6.02e23), ("10^-3", 1e-3),
        ("10⁻³", 1e-3), ("3/4", 0.75), (r"\frac{3}{4}", 0.75), (r"-\dfrac{1}{2}", -0.5),
        ("**42**", 42), ("`42`", 42), (r"\mathbf{42}", 42), (r"1.5 \times 10^{ -3 }", 1.5e-3),
        ("1.602×10⁻¹⁹", 1.602e-19),
    ],
)  # fmt: skip
def test_a_number_is_read_in_every_notation(text: str, value: float) -> None:
    (quantity,) = read_quantities(plain_numbers(text), units=False)

    assert quantity.value == value


@pytest.mark.parametrize(
    "text", ["H2O", "x_3", "v1.2.3", "m^2", "2^10", "1e999", "1/0"]
)
def test_what_is_no_number_is_not_read(text: str) -> None:
    assert list(read_quantities(plain_numbers(text), units=False)) == []


@pytest.mark.parametrize(
    ("directive", "response"),
    [
        ("9.81 ± 0.01 m/s^2", "g = 981 cm/s²"),
        ("9.81 ± 0.01 m/s^2", r"$g = 9.81\,\text{m}/\text{s}^2$"),
        ("9.81 ± 0.01 m/s^2", r"$g = 9.81\ \mathrm{m\,s^{-2}}$"),
        ("9.81 ± 0.01 m/s^2", r"It is 9.81 \frac{\text{m}}{\text{s}^2}."),
        ("9.81 ± 0.01 m/s^2", "It is 9.81 meters per second squared."),
        ("9.81 ± 0.01 m/s^2", "It is **9.81 m/s²** in Figure 3."),
        ("9.81 ± 0.01 m/s^2", "It is (9.81 ± 0.02) m·s⁻² after 7 s."),
        ("293.15 ± 0.01 K", "20 °C"),
        ("20 ± 0.1 °C", "293.15 K"),
        ("20 ± 0.1 °C", "68 °F"),
        ("20 ± 0.1 °C", "20 degrees Celsius"),
        ("12.5 [%]", "a share of 12.5 %"),
        ("12.5 [%]", r"a share of $12.5\%$"),
        ("12.5 [%]", "a share of 0.125"),
        ("1.5 kWh", "5.4 MJ"),
        ("50 Ω", "0.05 kΩ"),
        ("5 µm", "5 μm"),
        ("8.314 ± 0.01 J/(mol K)", "R = 8.314 J/(mol·K)"),
        ("8.314 ± 0.01 J/(mol K)", "R = 8.314 J mol^-1 K^-1"),
        ("6.02e23 ± 1% [1/mol]", "6.02 × 10²³ mol⁻¹"),
        ("5 N m", "a torque of 5 N m"),
        ("5 N m", "a torque of 5 N·m"),
        ("90 deg", "90°"),
        ("3 apples", "She has 3 apples left."),
        ("2.5 m^2", "2.5 square metres"),
        ("1.602e-19 C", r"1.602 \times 10^{-19}\,\text{C}"),
        ("42", "The answer is 42."),
        ("42", r"So 6 · 7 = \boxed{42}, by table 3."),
        ("42", "Answer: 42\nI used 3 sources."),
        ("42", "... #### 42"),
        ("42", r"First \boxed{7}, or rather \boxed{42}."),
        ("0.5", r"\boxed{\frac{1}{2}}"),
        ("5", "From 3 to 5 is 2, and so x = 5"),
        ("3", "from 3 km to 3 km"),
    ],
)
def test_a_right_answer_passes(directive: str, response: str) -> None:
    assert _states(directive, response)


@pytest.mark.parametrize(
    ("directive", "response"),
    [
        ("9.81 ± 0.01 m/s^2", "9.81"),  # without the unit
        ("9.81 ± 0.01 m/s^2", "9.81 m/s"),
        ("9.81 ± 0.01 m/s^2", "9.81 km/s²"),
        ("5 m", "5 m/s"),
        ("5 m", "5 mm"),
        ("20 °C", "20 K"),
        ("12.5 [%]", "12.5"),
        ("3 apples", "3 pears"),
        ("42", "42 is wrong, it is 43"),
        ("42", "-42"),
        ("42", "40–44"),
        ("42", "40-42"),
        ("42", "between 41 and 42"),
        ("42", "41 or 42"),
        ("42", "from 41 to 42"),
        ("5 m", "3 m to 5 m"),
        ("42", r"42, so \boxed{43}"),
        ("42", r"\boxed{43} and then 42"),
        ("42", "Answer: 43\nNote that 42 is close."),
        ("42", r"It is \boxed{42"),
        ("1.602e-19 C", "0 C"),  # no absolute slack
        ("42", ""),
        ("42", "forty-two"),
    ],
)
def test_a_wrong_or_undecided_answer_fails(directive: str, response: str) -> None:
    assert not _states(directive, response)


@pytest.mark.parametrize("where", ["answer", "any"])
@pytest.mark.parametrize(
    "between", [" ", ", ", "\n", " or ", " to ", " and ", "; ", r" \\ "]
)
def test_a_list_of_guesses_does_not_pass(where: str, between: str) -> None:
    guesses = [str(number) for number in range(100) if number != 99]

    assert not _states(f"42; where={where}", between.join(guesses))
    assert not _states(
        f"42; where={where}", between.join(rf"\boxed{{{g}}}" for g in guesses)
    )


@given(st.permutations(range(12)))
def test_of_many_different_numbers_one_is_the_answer_at_most(
    numbers: list[int],
) -> None:
    def passing(response: str) -> list[int]:
        return [n for n in range(12) if states_number(NumericCheck(n, 0), response)]

    assert passing(", ".join(map(str, numbers))) == []
    assert passing(". Now it is ".join(map(str, numbers))) == [numbers[-1]]


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["{!r}", "{:.17e}", "${!r}$", r"\boxed{{{!r}}}", "answer: {!r}", "x = {!r}."]
    ),
)
def test_every_number_is_found_as_python_writes_it(value: float, form: str) -> None:
    assert states_number(NumericCheck(value, 0), form.format(value))


UNITS = ("m", "km", "cm", "inch", "s", "min", "h", "kg", "g", "lb", "K", "degC", "degF", "J", "kWh",
         "eV", "m/s", "km/h", "N", "Pa", "bar", "mol/L", "V", "A", "ohm", "Hz", "rad",
         "deg")  # fmt: skip


@given(
    st.floats(-1e6, 1e6).map(lambda x: round(x, 6)),
    st.sampled_from(UNITS),
    st.sampled_from(UNITS),
)
@settings(max_examples=200, deadline=None)
def test_units_are_converted_as_pint_does(value: float, unit: str, target: str) -> None:
    ours = to_unit(value, unit, target)
    try:
        theirs = float(_REGISTRY.Quantity(value, unit).m_as(target))
    except pint.DimensionalityError:
        assert ours is None
    else:
        assert ours is not None
        assert math.isclose(
            ours, theirs, rel_tol=1e-9, abs_tol=1e-9 * (1 + abs(theirs))
        )


_REGISTRY = pint.UnitRegistry()


@pytest.mark.parametrize("unit", ["dB", "dBm", "pH"])
def test_a_logarithmic_unit_is_compared_as_written(unit: str) -> None:
    assert to_unit(3.0, unit, "W") is None


@given(st.text(alphabet="0123456789.,e×^*/±+- \\{}$°%mskgab²⁻", max_size=80))
@settings(max_examples=300, deadline=None)
def test_no_text_makes_numbers_fail(text: str) -> None:
    plain = plain_numbers(text)
    for quantity in read_quantities(plain, units=True):
        assert math.isfinite(quantity.value)
    read_number(plain)
    states_number(NumericCheck(5, 0, "m/s"), text)
    with contextlib.suppress(VerificationError):
        read_numeric(text)


@pytest.mark.parametrize(
    "unit",
    ["1 ", "1,000", "^ ", r"\frac{", r"\text{", "1 m/", "m s^-1 ", r"\boxed{", "answer: ",
     "1±", "1/", "1 × 10^", "{", "$", "1 per ", "١", "9" * 50, "a", " "],
)  # fmt: skip
def test_long_texts_are_read_in_bounded_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started_s = time.process_time()

    for check in (
        NumericCheck(7, 0),
        NumericCheck(7, 0, "m/s"),
        NumericCheck(7, 0, "N m", "any"),
    ):
        states_number(check, text)
    with contextlib.suppress(VerificationError):
        read_numeric(text)

    assert time.process_time() - started_s < 3.0


@pytest.mark.parametrize("directive", ["5 ± 0.1 m/sec2", "5 ± 0.1 m^^2", "9.81 ~ 0.05"])
def test_a_unit_that_can_only_be_a_mistake_is_refused(directive: str) -> None:
    with pytest.raises(VerificationError):
        read_numeric(directive)


def test_a_tolerance_may_be_typed_on_any_keyboard() -> None:
    for sign in ("±", "+-", "+/-"):
        assert read_numeric(f"9.81 {sign} 0.05 m/s^2") == NumericCheck(
            9.81, 0.05, "m/s^2"
        )
