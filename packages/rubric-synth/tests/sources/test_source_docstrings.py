from pathlib import Path

import pytest

from rubric_synth import collect, synthesise
from rubric_synth.document import ApiEntry
from rubric_synth.sources.docstrings import read_docstring

_GOOGLE = """Compute the tide at a gauge.

    Args:
        level (array_like, optional): Water levels,
            see :ref:`gauges`.
        gauge:
            Name of the gauge.

            Note: a colon inside stays inside.
        *args, **kwargs: The rest.

    Returns:
        A level for each hour.

    Raises:
        ValueError: If the gauge is dry.

    Example:
        >>> tide(1)

    Text at the margin goes on with the summary.

    Warning:
        Never use it in a storm.
    """

_SPHINX = """Compute the tide at a gauge.

    :param array_like level: Water levels,
        see :ref:`gauges`.
    :param gauge: Name of the gauge.
    :type gauge: str
    :returns: A level for each hour.
    :rtype: ndarray
    :raises ValueError: If the gauge is dry.

    More of the summary, with a :class:`Role` in it.
    """

_NUMPYDOC = """tide(level, /, gauge)

    Compute the tide at a gauge.

    A second paragraph.

    Parameters
    ----------
    level, gauge : array_like
        Water levels, see :ref:`gauges`.

        More of it.
    out : ndarray, optional
    *args, optional
        The rest.

    Returns
    -------
    ndarray
        The tide.

    Raises
    ------
    ValueError
        If the gauge is dry.

    Warnings
    --------
    Never use it in a storm.

    Notes
    -----
    It is slow.

    Examples
    --------
    >>> tide(1, 2)
    """


def _entry(docstring: str) -> ApiEntry:
    return read_docstring(docstring, qualified_name="sea.tide", form="function")


def test_google_sections_become_items_and_paragraphs() -> None:
    entry = _entry(_GOOGLE)
    assert entry.summary == (
        "Compute the tide at a gauge.",
        "Text at the margin goes on with the summary.",
    )
    assert [(p.name, p.kind, p.description) for p in entry.parameters] == [
        ("level", "array_like, optional", "Water levels, see gauges."),
        ("gauge", "", "Name of the gauge. Note: a colon inside stays inside."),
        ("args", "", "The rest."),
        ("kwargs", "", "The rest."),
    ]
    assert [(r.name, r.description) for r in entry.returns] == [
        ("", "A level for each hour.")
    ]
    assert [(r.name, r.description) for r in entry.raises] == [
        ("ValueError", "If the gauge is dry.")
    ]
    assert entry.notes == ("Never use it in a storm.",)


def test_a_typed_google_result_keeps_its_type() -> None:
    (result,) = _entry("Do it.\n\nReturns:\n    dict[str, int]: The counts.").returns
    assert (result.name, result.description) == ("dict[str, int]", "The counts.")


def test_sphinx_fields_become_items_and_paragraphs() -> None:
    entry = _entry(_SPHINX)
    assert entry.summary == (
        "Compute the tide at a gauge.",
        "More of the summary, with a Role in it.",
    )
    assert [(p.name, p.kind, p.description) for p in entry.parameters] == [
        ("level", "array_like", "Water levels, see gauges."),
        ("gauge", "str", "Name of the gauge."),
    ]
    assert [(r.kind, r.description) for r in entry.returns] == [
        ("ndarray", "A level for each hour.")
    ]
    assert [(r.name, r.description) for r in entry.raises] == [
        ("ValueError", "If the gauge is dry.")
    ]


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.",
        "Do it.\n\nArgs: none.",
        "Do it.\n\nExample:\n    do(1)",
        "See :class:`param`.",
    ],
)
def test_a_docstring_without_fields_is_none_of_either(docstring: str) -> None:
    entry = _entry(docstring)
    assert (entry.parameters, entry.returns, entry.raises) == ((), (), ())
    assert entry.summary[0] == docstring.partition("\n")[0].replace(
        ":class:`param`", "param"
    )


def test_numpydoc_sections_become_items_and_paragraphs() -> None:
    entry = _entry(_NUMPYDOC)
    assert (entry.owner, entry.name) == ("sea", "tide")
    assert entry.summary == ("Compute the tide at a gauge.", "A second paragraph.")
    assert [(p.name, p.kind, p.description) for p in entry.parameters] == [
        ("level", "array_like", "Water levels, see gauges. More of it."),
        ("gauge", "array_like", "Water levels, see gauges. More of it."),
        ("out", "ndarray, optional", ""),
        ("args", "", "The rest."),
    ]
    assert [(r.name, r.description) for r in entry.returns] == [
        ("ndarray", "The tide.")
    ]
    assert [(r.name, r.description) for r in entry.raises] == [
        ("ValueError", "If the gauge is dry.")
    ]
    assert entry.notes == ("Never use it in a storm.", "It is slow.")


def test_a_plain_docstring_has_only_a_summary() -> None:
    entry = _entry("Do it.")
    assert (entry.summary, entry.parameters, entry.returns) == (("Do it.",), (), ())


def test_a_package_with_google_docstrings_gives_tasks(tmp_path: Path) -> None:
    collected = collect(["python:structlog"], tmp_path / "c")
    report = synthesise(tmp_path / "c", tmp_path / "d")
    assert (
        1 <= report.accepted_documents < 0.5 * collected.documents
    )  # its entries are short
    assert report.rejected["too_few_facts"] >= 10
    assert (
        report.rejected["no_parameters"] >= 10
    )  # what takes nothing is still left out
