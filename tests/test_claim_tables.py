"""tools/claim_tables.py on a WordNet of four words, and the tables that it made of the real one."""

import runpy
from pathlib import Path

import pytest

from rubric_judge.judges import claims

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "data.noun": "00000009 00 n 01 heat 0 001 + 00000005 v 0101 | warmth\n",
    "data.verb": "00000005 00 v 02 heat 0 warm_up 0 001 + 00000009 n 0101 | make hot\n",
    "data.adj": (
        "  1 lines that begin with spaces are the licence\n"
        "00000001 00 a 02 hot 0 torrid 0 001 ! 00000002 a 0101 | of high temperature\n"
        "00000002 00 a 01 cold 0 001 ! 00000001 a 0101 | of low temperature\n"
        "00000003 00 a 01 stable 0 000 | firm\n"
        "00000004 00 a 01 unstable 0 000 | not firm\n"
    ),
    "data.adv": "",
    "index.noun": "heat n 1 1 + 1 1 00000009\n",
    "index.verb": "heat v 1 1 + 1 1 00000005\nwarm_up v 1 0 1 0 00000005\n",
    "index.adj": (
        "hot a 1 1 ! 1 1 00000001\ntorrid a 1 0 1 1 00000001\ncold a 1 1 ! 1 1 00000002\n"
        "stable a 1 0 1 1 00000003\nunstable a 1 0 1 1 00000004\n"
    ),
    "index.adv": "",
    "cntlist.rev": (
        "hot%3:00:01:: 1 5\ntorrid%3:00:01:: 1 2\ncold%3:00:01:: 1 4\nheat%1:00:00:: 1 3\n"
        "stable%3:00:00:: 1 2\nunstable%3:00:00:: 1 1\n"
    ),
}


def test_words_of_one_sense_their_opposites_and_denials_are_found(
    tmp_path: Path,
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    tool = runpy.run_path(str(ROOT / "tools" / "claim_tables.py"))
    synonyms, opposites, derived = tool["related"](tool["read"](tmp_path), set())
    assert synonyms == {("hot", "torrid")}
    assert opposites == {("cold", "hot"), ("stable", "unstable")}
    assert derived == set()  # a word of the same stem is no news


@pytest.mark.parametrize("name", ["synonyms", "opposites", "derived"])
def test_a_table_holds_groups_of_plain_words_and_the_licence_is_beside_it(
    name: str,
) -> None:
    (folder,) = claims.__path__
    rows = (Path(folder) / "wordnet" / f"{name}.txt").read_text("utf-8").splitlines()
    assert rows == sorted(set(rows))
    assert all(len(row.split()) > 1 and row.replace(" ", "").isalpha() for row in rows)
    licence = (Path(folder) / "wordnet" / "LICENSE").read_text("utf-8")
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
    assert f"{name}.txt" in licence


def test_words_that_meet_oftener_than_by_chance_stand_in_the_table_of_order() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "claim_tables.py"))
    texts = ("The sum of the rows is in the table.", "A mean of the rows is given.")
    rows = tool["neighbours"](tool["classes_of"](text) for text in texts * 40)
    table = {row.split()[0]: row.split()[1:] for row in rows}
    after = dict(zip(table["of"][::2], map(int, table["of"][1::2]), strict=True))

    assert after["the"] > 0 > after["is"]
