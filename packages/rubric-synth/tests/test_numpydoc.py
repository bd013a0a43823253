from __future__ import annotations

from rubric_synth.numpydoc import parse_docstring

_DOCSTRING = """tide(level, /, gauge)

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


def test_sections_become_items_and_paragraphs() -> None:
    entry = parse_docstring(_DOCSTRING, qualified_name="sea.tide", form="function")
    assert (entry.owner, entry.name) == ("sea", "tide")
    assert entry.summary == ("Compute the tide at a gauge.", "A second paragraph.")
    assert [(p.name, p.kind, p.description) for p in entry.parameters] == [
        ("level", "array_like", "Water levels, see gauges. More of it."),
        ("gauge", "array_like", "Water levels, see gauges. More of it."),
        ("out", "ndarray, optional", ""),
        ("args", "", "The rest."),
    ]
    assert [(r.name, r.description) for r in entry.returns] == [("ndarray", "The tide.")]
    assert [(r.name, r.description) for r in entry.raises] == [
        ("ValueError", "If the gauge is dry.")
    ]
    assert entry.notes == ("Never use it in a storm.", "It is slow.")


def test_a_plain_docstring_has_only_a_summary() -> None:
    entry = parse_docstring("Do it.", qualified_name="a.b", form="method")
    assert (entry.summary, entry.parameters, entry.returns) == (("Do it.",), (), ())
