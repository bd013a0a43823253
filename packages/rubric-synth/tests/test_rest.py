from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.sources.cleaning.markup import inline_to_prose, rest_to_prose


def test_roles_literals_and_emphasis_become_words() -> None:
    text = (
        "See :func:`~numpy.linalg.svd` and ``axis``, *never* **both**, [1]_ or `a "
        "link <x.org>`_."
    )
    assert (
        rest_to_prose(text) == "See numpy.linalg.svd and axis, never both, or a link."
    )


def test_formulas_code_tables_and_version_notes_are_dropped() -> None:
    text = """The sum is taken.

.. math::

    x = y

.. versionadded:: 1.0
   Added here.

Example::

    >>> f(1)

===  ===
a    b
===  ===

The end."""
    assert rest_to_prose(text).split("\n\n") == [
        "The sum is taken.",
        "Example:",
        "a b",
        "The end.",
    ]


def test_notes_are_kept_as_prose() -> None:
    assert (
        rest_to_prose(".. note::\n   Only odd windows\n   are valid.")
        == "Only odd windows are valid."
    )


def test_bullets_become_paragraphs() -> None:
    assert rest_to_prose("Modes:\n\n- full\n- valid\n  output").split("\n\n") == [
        "Modes:",
        "full",
        "valid output",
    ]


@given(st.text(max_size=400))
def test_any_text_gives_paragraphs_on_one_line(text: str) -> None:
    for paragraph in rest_to_prose(text).split("\n\n"):
        assert "\n" not in paragraph
        assert paragraph == paragraph.strip()


def test_exponents_of_roles_are_no_part_of_the_number() -> None:
    text = r"About 10\ :sup:`6` litres of H\ :sub:`2`\ O at 5 m\ :superscript:`-2`."
    assert inline_to_prose(text) == "About 10^6 litres of H2O at 5 m^-2."
