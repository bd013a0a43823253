from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.document import ApiEntry, ApiItem, parse_entry

_VOCABULARY = ["water", "level", "gauge", "tide", "high", "low", "[x]", "a:", "b"]
_WORDS = st.lists(st.sampled_from(_VOCABULARY), min_size=1)
_LINES = _WORDS.map(" ".join)
_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
_ITEMS = st.builds(
    ApiItem,
    name=_NAMES,
    kind=st.one_of(
        st.just(""), st.sampled_from(["int", "array_like, optional", "(N,) ndarray"])
    ),
    description=st.one_of(st.just(""), _LINES),
)
_ENTRIES = st.builds(
    ApiEntry,
    qualified_name=st.tuples(_NAMES, _NAMES, _NAMES).map(".".join),
    form=st.sampled_from(["function", "class", "method"]),
    summary=st.lists(_LINES, max_size=3).map(tuple),
    parameters=st.lists(_ITEMS, max_size=3).map(tuple),
    returns=st.lists(_ITEMS, max_size=2).map(tuple),
    raises=st.lists(_ITEMS, max_size=2).map(tuple),
    notes=st.lists(_LINES, max_size=2).map(tuple),
)


@given(_ENTRIES)
def test_an_entry_is_read_back_as_it_was_written(entry: ApiEntry) -> None:
    assert parse_entry(entry.rendered()) == entry


def test_other_text_is_no_entry() -> None:
    assert parse_entry("# Tides\n\nHigh water.") is None
