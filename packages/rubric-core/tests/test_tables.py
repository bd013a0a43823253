"""Rubrics in tables: what each column is taken for, and what a table may not hold."""

import csv
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import ConfigError, CriterionKind, MissingExtraError, RubricFileError
from rubric_core.files import toml_beside
from rubric_core.formats import (
    Imported,
    ImportOptions,
    columns,
    import_tasks,
    is_penalty,
    tables,
)
from rubric_core.formats.columns import PARTS
from rubric_core.formats.draft import NO_PASSAGE
from rubric_core.formats.tables import read_table
from rubric_core.formats.totals import sums_column

HEAD = "question,criterion,weight"
NO_ID = (
    "no column is the id: criteria are c1, c2, … of each question, and results by "
    "criterion put those of one number together"
)
ROD = "Why does a rod grow?"
ICE = "Why does ice float?"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: str | bytes, name: str = "rubrics.csv") -> Path:
        path = tmp_path / name
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(raw)
        return path

    return write_file


def _read(path: Path, **options: object) -> tuple[list[Imported], list[str]]:
    notes: list[str] = []
    chosen = ImportOptions(**options)  # type: ignore[arg-type]
    found = import_tasks("table", path, options=chosen, on_note=notes.append)
    return list(found), notes


def _fails(path: Path, **options: object) -> str:
    with pytest.raises((RubricFileError, ConfigError)) as raised:
        _read(path, **options)
    return str(raised.value)


Write = Callable[..., Path]


def test_rows_of_a_question_become_one_task(write: Write) -> None:
    path = write(
        "Prompt,Rubric item,Pts,Model answer,Grounding\n"
        f'{ROD},"Says that atoms\nswing, as ""heat"" does",2,They swing.,Heat moves atoms.\n'
        ",Names the length,1.5,,\n"
        f"{ICE},Names the density,1,,\n"
    )
    (rod, ice), notes = _read(path)

    assert [(c.weight, c.description) for c in rod.task.rubric] == [
        (2.0, 'Says that atoms\nswing, as "heat" does'),
        (1.5, "Names the length"),
    ]
    assert rod.task.question == ROD
    assert rod.task.reference_answer == "They swing."
    assert rod.task.grounding.reveal() == "Heat moves atoms."
    assert (ice.task.question, ice.task.reference_answer) == (ICE, None)
    assert ice.task.grounding.reveal() == NO_PASSAGE
    assert notes == [
        "column 'Prompt' is read as the question",
        "column 'Rubric item' is read as the criterion",
        "column 'Pts' is read as the weight",
        "column 'Model answer' is read as the reference",
        "column 'Grounding' is read as the passage",
        "rows without a question, as below a merged cell, read as of the question above: 1",
        NO_ID,
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_spreadsheets_write_is_read(
    write: Write, encoding: str, delimiter: str
) -> None:
    rows = [
        ["question", "criterion", "weight"],
        ["Wieso wächst der Stab?", '"Says why, where; and how"', "2"],
    ]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    ((found,), _) = _read(write(text.encode(encoding)))

    (criterion,) = found.task.rubric
    assert found.task.question == "Wieso wächst der Stab?"
    assert criterion.description == "Says why, where; and how"


def test_excels_own_first_line_names_the_delimiter(write: Write) -> None:
    ((found,), _) = _read(
        write(f"sep=;\r\n{HEAD.replace(',', ';')}\r\nQ?;a, b;2,5\r\n")
    )

    assert found.task.rubric.total_weight == 2.5


def test_a_decimal_comma_is_one_where_semicolons_separate(write: Write) -> None:
    ((found,), _) = _read(write("question;criterion;weight\nQ?;a;0,5\n;b;1.5\n"))
    assert [c.weight for c in found.task.rubric] == [0.5, 1.5]

    error = _fails(write('question,criterion,weight\nQ?,a,"0,5"\n'))
    assert ":2: the weight of row 2 is '0,5', which is no number" in error
    assert "decimal comma is read only where semicolons" in error


def test_a_point_of_thousands_is_not_read_as_a_decimal_one(write: Write) -> None:
    error = _fails(write("question;criterion;weight\nQ?;a;1.500\n"))
    assert "is '1.500', in which the point may be one of thousands" in error

    ((found,), _) = _read(write("question,criterion,weight\nQ?,a,1.500\n"))
    assert found.task.rubric.total_weight == 1.5


def test_a_column_is_what_the_user_says(write: Write) -> None:
    path = write("Opgave,Kriterie,Pointtal,Notat\nQ?,says so,3,x\n")
    error = _fails(path)
    assert "no column is known as the criterion" in error
    assert "'Kriterie'" in error
    assert "--column criterion=NAME" in error

    choice = ("question=opgave", "criterion=Kriterie", "weight=C")
    ((found,), notes) = _read(path, columns=choice)
    assert found.task.rubric.total_weight == 3
    assert "column 'Notat' is not read" in notes
    assert found.fields is not None
    assert found.fields.left_out.total() == 1
    assert found.fields.read == 3

    (_, notes) = _read(path, columns=choice, leave_out=("Notat",))
    assert "column 'Notat' is not read" not in notes


def test_a_column_that_may_be_a_missing_part_is_named_with_its_option(
    write: Write,
) -> None:
    path = write("Question,Item,Top marks,Gold note,Marker\nQ?,says so,3,It is.,x\n")

    (_, notes) = _read(path)
    assert notes[2:] == [
        "column 'Top marks' is not read; if it is the weight: --column 'weight=Top marks'",
        "column 'Gold note' is not read; if it is the reference: --column 'reference=Gold note'",
        "column 'Marker' is not read",
        "no column is the weight: all criteria of a question count the same",
    ]

    ((found,), notes) = _read(path, columns=("weight=Top marks", "reference=Gold note"))
    assert found.task.reference_answer == "It is."
    assert found.task.rubric.total_weight == 3
    assert notes[-1] == "column 'Marker' is not read"


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("weight", "write `--column weight=Pts`"),
        ("wait=Pts", "'wait' is no part of a rubric; use one of question"),
        ("weight=Points", "no column with anything in it is called 'Points'"),
        ("weight=D", "no column with anything in it is called 'D'"),
    ],
)
def test_a_choice_of_no_column_is_an_error(
    write: Write, choice: str, problem: str
) -> None:
    assert problem in _fails(write(f"{HEAD}\nQ?,a,1\n"), columns=(choice,))


def test_two_columns_for_one_part_are_an_error_unless_they_say_the_same(
    write: Write,
) -> None:
    head = "question,criterion,weight,max_points"
    error = _fails(write(f"{head}\nQ?,a,0.3,30\n"))
    assert (
        "column 'weight' (C) and column 'max_points' (D) may each be the weight"
        in error
    )
    assert "--column weight=C" in error

    ((found,), notes) = _read(
        write(f"{head}\nQ?,a,0.3,30\n"), columns=("weight=max_points",)
    )
    assert found.task.rubric.total_weight == 30
    assert "column 'weight' is not read" in notes

    (_, notes) = _read(write(f"{head}\nQ?,a,3,3\n"))
    assert "column 'max_points' says again what another column says" in notes


def test_columns_of_the_same_name_are_told_apart_by_letter(write: Write) -> None:
    path = write("question,criterion,weight,weight\nQ?,a,1,2\n")
    assert "'weight' (C) and column 'weight' (D)" in _fails(path)
    assert "are both called 'weight'" in _fails(path, columns=("weight=weight",))

    ((found,), _) = _read(path, columns=("weight=D",))
    assert found.task.rubric.total_weight == 2


def test_a_short_criterion_beside_a_description_is_its_name(write: Write) -> None:
    path = write(
        f"question,Criterion,Description,Weight\n{ROD},Cause,Names the cause,40%\n"
        ",Effect,,60%\n"
    )
    ((found,), notes) = _read(path)

    assert [(c.name, c.description, c.weight) for c in found.task.rubric] == [
        ("Cause", "Names the cause", 40.0),
        ("", "Effect", 60.0),
    ]
    assert "column 'Criterion' is read as the name" in notes


def test_every_part_has_its_place(write: Write) -> None:
    path = write(
        "question_id,question,section,criterion id,criterion,kind,Full marks,None\n"
        f"q7,{ROD},Physics,cause,Names the cause,Cause,names atoms,says nothing\n"
        "q7,,,effect,Names the effect,,,\n"
    )
    ((found,), _) = _read(path, columns=("guide=Full marks", "guide=None"))
    first, second = found.task.rubric

    assert found.source_id == "q7"
    assert (first.id, first.kind) == ("cause", CriterionKind.CAUSE)
    assert first.scoring_guide == (
        "Part of: Physics\nFull marks: names atoms\nNone: says nothing"
    )
    assert (second.id, second.weight) == ("effect", 1.0)
    assert second.scoring_guide == "Part of: Physics"


def test_an_id_without_a_word_is_the_criterions_where_none_repeats(
    write: Write,
) -> None:
    ((one,), _) = _read(write("id,question,criterion\n1,Q?,a\n2,Q?,b\n"))
    assert [c.id for c in one.task.rubric] == ["1", "2"]

    ((two,), _) = _read(write("id,question,criterion\n7,Q?,a\n7,,b\n"))
    assert two.source_id == "7"
    assert [c.id for c in two.task.rubric] == ["c1", "c2"]


def test_rows_of_one_question_may_stand_apart(write: Write) -> None:
    (found, _) = _read(write(f"{HEAD}\n{ROD},a,1\n{ICE},b,1\n\n{ROD},c,1\n"))

    assert [len(one.task.rubric) for one in found] == [2, 1]


def test_rows_above_the_names_are_said_not_to_be_read(write: Write) -> None:
    ((found,), notes) = _read(write(f"Rubric of 2026,,\n,,\n{HEAD}\nQ?,a,1\n"))

    assert len(found.task.rubric) == 1
    assert notes[0] == "row 3 names the columns; what is above it is not read"


def test_a_total_is_no_criterion(write: Write) -> None:
    ((found,), notes) = _read(write(f"{HEAD}\nQ?,a,1\n,b,2\n,Total:,3\n"))

    assert found.task.rubric.total_weight == 3
    assert "not read, for it is a total and no criterion: row 4" in notes


@pytest.mark.parametrize(
    "row",
    [
        ",Total points (max),3",
        ",TOTAL: 3 points,3",
        ",Sum,3",
        ",Overall total,3",
        ",Gesamtpunktzahl,3",
        ",合計,3",
        "Total,,3",
        "合計点,,3",
        ",,3",
        ",Total,",
    ],
)
def test_a_row_is_a_total_by_its_words_or_its_sum(write: Write, row: str) -> None:
    ((found,), notes) = _read(write(f"{HEAD}\nQ?,a,1\n,b,2\n{row}\n"))

    assert [c.description for c in found.task.rubric] == ["a", "b"]
    assert "not read, for it is a total and no criterion: row 4" in notes


def test_the_sum_of_all_questions_is_a_total_too(write: Write) -> None:
    (found, notes) = _read(write(f"{HEAD}\nQ?,a,1\n,b,2\nR?,c,4\n,,7\n"))

    assert [len(one.task.rubric) for one in found] == [2, 1]
    assert "not read, for it is a total and no criterion: row 5" in notes


@pytest.mark.parametrize(
    "criterion", ["Gives the total", "Total energy", "Names the sum", "Overall quality"]
)
def test_a_criterion_about_a_total_is_read(write: Write, criterion: str) -> None:
    ((found,), _) = _read(write(f"{HEAD}\nQ?,a,1\n,b,2\n,{criterion},3\n"))

    assert found.task.rubric.total_weight == 6


def test_a_weight_without_a_criterion_that_is_no_sum_is_refused(write: Write) -> None:
    for row in (",,4", ",,1"):
        problem = _fails(write(f"{HEAD}\nQ?,a,1\n,b,2\n{row}\n"))
        assert "row 4 has a weight and no criterion" in problem


def test_a_formula_that_adds_up_its_column_is_a_total(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [HEAD.split(","), ["Q?", "a", 1], ["", "b", 2], ["", "全部", "=SUM(C2:C3)"]]
    for row in [*rows, ["", "c", 4]]:
        book.active.append(row)
    book.save(tmp_path / "rubrics.xlsx")

    ((found,), notes) = _read(tmp_path / "rubrics.xlsx")

    assert [c.description for c in found.task.rubric] == ["a", "b", "c"]
    assert "not read, for it is a total and no criterion: row 4" in notes


@pytest.mark.parametrize(
    ("formula", "is_total"),
    [
        ("=C2+C3", True),
        ("=+SUM($C$2:$C$3)", True),
        ("=SUM(C2, C3)", True),
        ("=SUBTOTAL(109, C2:C3)", True),
        ("=SUM(C2:C3)/2", False),
        ("=SUM(C2:C3)*2", False),
        ("=SUM(C2:C3,D2)", False),
        ("=2*C2+C3", False),
    ],
)
def test_a_formula_is_a_total_if_it_is_a_sum_and_no_more(
    formula: str, *, is_total: bool
) -> None:
    assert sums_column(formula, "C") is is_total


def test_a_long_table_takes_steps_by_its_length(write: Write) -> None:
    def steps(count: int) -> int:
        rows = "".join(f"i{n},Q{n}?,c{n},1\n" for n in range(count))
        path = write(f"question id,question,criterion,weight\n{rows}")
        lines = 0
        notes: list[str] = []

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace if frame.f_code.co_filename == tables.__file__ else None

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert len(list(read_table(path, ImportOptions(), notes.append))) == count
        finally:
            sys.settrace(before)
        return lines

    assert steps(400) < 2.5 * steps(200)


def test_criteria_without_ids_are_said_to_be_counted_together(write: Write) -> None:
    (_, of_one) = _read(write(f"{HEAD}\nQ?,a,1\n,b,2\n"))
    (_, without) = _read(write(f"{HEAD}\nQ?,a,1\nR?,b,2\n"))
    (_, named) = _read(write(f"{HEAD},id\nQ?,a,1,x\nR?,b,2,y\n"))

    assert [NO_ID in notes for notes in (of_one, without, named)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "header",
    [
        "Frage;Kriterium;Gewichtung;Musterlösung",
        "質問;評価基準（一つずつ）;配点;模範解答",
    ],
)
def test_names_are_guessed_in_other_languages(write: Write, header: str) -> None:
    ((found,), _) = _read(write(f"{header}\nQ?;a;2,5;It is.\n;b;1;\n"))

    assert (found.task.question, found.task.reference_answer) == ("Q?", "It is.")
    assert [c.weight for c in found.task.rubric] == [2.5, 1]


def test_a_form_says_which_column_may_hold_the_criteria(write: Write) -> None:
    path = write(
        "Timestamp,Email,Which question?,What must an answer do?,How many points?\n"
        "2026/03/01 10:11:12 AM GMT+1,a@b.org,Why?,Says that it is warm.,3\n"
        "2026/03/01 10:12:13 AM GMT+1,a@b.org,Why?,Says that it is wet.,2\n"
    )

    assert "`--column criterion=D`" in _fails(path)


def test_criteria_in_several_columns_are_refused(write: Write) -> None:
    path = write(
        "Question,Criterion 1,Points 1,Criterion 2,Points 2\nQ?,Says a,1,Says b,2\n"
    )

    for options in ({}, {"columns": ("criterion=B",)}):
        problem = _fails(path, **options)
        assert "'Criterion 2'" in problem
        assert "one criterion a row" in problem


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("Q?,a,two\n", ":2: the weight of row 2 is 'two', which is no number"),
        ("Q?,a,1-10\n", "the weight of row 2 is '1-10', which is no number"),
        ("Q?,a,inf\n", "the weight of row 2 is 'inf', which is no number"),
        (
            "Q?,a,1\n,b,\n",
            ":3: row 3 has no weight, and row 2 of the same question has",
        ),
        ("Q?,a,20%\n,b,0.8\n", ":3: the weight of row 3 is 0.8, and others"),
        (",a,1\n", ":2: row 2 has no question, and none stands above it"),
        ("Q?,,1\n", ":2: row 2 has a weight and no criterion"),
        ("Q?,,\n", ":2: the question of row 2 has no criterion"),
        ("Q?,a,0\n", "weight"),
        (f"Q?,a,1\n{HEAD}\n", ":3: row 3 names the columns again"),
        ("Q?,Does not mention ice,-2\n", ":2: the weight of row 2 is -2, and its"),
        ("Q?,\"[{'criteria': 'a'}]\",1\n", ":2: the criterion of row 2 is a list"),
        ('Q?,"a,1\n', ":2: not a readable table: unexpected end of data"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_number(
    write: Write, rows: str, problem: str
) -> None:
    assert problem in _fails(write(f"{HEAD}\n{rows}"))


def test_negative_weights_are_penalties_as_in_other_formats(write: Write) -> None:
    path = write(f"{HEAD}\nQ?,Names ice,2\n,Blames rust,-1\n,Does not name heat,-1\n")
    assert "--pitfalls worded" in _fails(path)

    ((found,), _) = _read(path, pitfalls="failure")
    assert [is_penalty(c) for c in found.task.rubric] == [False, True, True]
    ((found,), _) = _read(path, pitfalls="avoidance")
    assert [is_penalty(c) for c in found.task.rubric] == [False, True, False]
    assert [c.weight for c in found.task.rubric] == [2, 1, 1]


@pytest.mark.parametrize("part", ["reference", "passage"])
def test_a_question_has_one_reference_and_one_passage(write: Write, part: str) -> None:
    same = write(f"{HEAD},{part}\nQ?,a,1,x\n,b,1,x\nQ?,c,1,\n")
    ((found,), _) = _read(same)
    assert found.task.grounding.reveal() == "x"

    two = write(f"{HEAD},{part}\nQ?,a,1,\n,b,1,x\n,c,1,y\n")
    assert f":4: the question of row 2 has two {part}s, in rows 3 and 4" in _fails(two)


def test_an_unknown_kind_is_an_error_with_the_known_ones(write: Write) -> None:
    error = _fails(write("question,criterion,kind\nQ?,a,fact\n"))

    assert "the kind of row 2 is 'fact', none of definition, cause" in error
    assert "--column section=NAME" in error


def test_an_id_of_two_questions_and_a_question_of_two_ids_are_errors(
    write: Write,
) -> None:
    head = "question id,question,criterion\n"
    two = _fails(write(f"{head}7,{ROD},a\n7,{ICE},b\n"))
    assert ":3: row 3 has the question id of row 2 and another question" in two

    other = _fails(write(f"{head}7,{ROD},a\n8,{ROD},b\n"))
    assert ":3: row 3 has the question of row 2 and another question id" in other


def test_a_bad_question_is_rejected_and_the_others_are_read(write: Write) -> None:
    path = write(f"{HEAD}\n{ROD},a,x\n{ICE},b,1\n")
    rejected: list[RubricFileError] = []
    (found,) = import_tasks("table", path, on_reject=rejected.append)

    assert found.task.question == ICE
    assert [error.line for error in rejected] == [2]


def test_a_table_without_questions_asks_those_of_a_file(
    write: Write, tmp_path: Path
) -> None:
    path = write("criterion,weight\na,1\nb,2\n")
    error = _fails(path)
    assert "--column question=NAME" in error
    assert "--questions" in error

    questions = tmp_path / "questions.jsonl"
    questions.write_text(f'{{"question": "{ROD}"}}\n{{"question": "{ICE}"}}\n')
    (found, _) = _read(path, questions=questions)
    assert [one.task.question for one in found] == [ROD, ICE]
    assert [len(one.task.rubric) for one in found] == [2, 2]


def test_question_ids_of_a_table_are_those_of_the_questions(
    write: Write, tmp_path: Path
) -> None:
    path = write("rubric_id,assignment_id,criterion\nR1,A1,a\nR1,A1,b\nR2,A2,c\n")
    questions = tmp_path / "questions.jsonl"
    questions.write_text(f'{{"id": "R2", "question": "{ICE}"}}\n')
    rejected: list[RubricFileError] = []
    options = ImportOptions(questions=questions)
    (found,) = import_tasks("table", path, options=options, on_reject=rejected.append)

    assert found.task.question == ICE
    assert [c.description for c in found.task.rubric] == ["c"]
    assert "question 'R1' is the `id` of no line" in str(rejected[0])


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("r.csv", b"", "the table has no rows"),
        ("r.csv", f"{HEAD}\nQ\xff?,a,1\n".encode("latin-1"), "not UTF-8 at byte 27"),
        ("r.csv", b"question\0,criterion", "holds NUL characters"),
        ("r.xls", b"", "the suffix is '.xls': save the table as .csv"),
        ("r.xlsx", b"PK", "not a readable .xlsx file (BadZipFile)"),
    ],
)
def test_what_is_no_table_says_what_to_do(
    write: Write, name: str, content: bytes, problem: str
) -> None:
    pytest.importorskip("openpyxl")
    assert problem in _fails(write(content, name))


def test_options_of_a_table_are_for_tables(write: Write) -> None:
    path = write("{}", "rows.jsonl")
    for options in (ImportOptions(columns=("weight=a",)), ImportOptions(sheet="a")):
        with pytest.raises(ConfigError, match="is for the format 'table'"):
            import_tasks("healthbench", path, options=options)
    assert "has no sheets" in _fails(write(HEAD), sheet="a")


def test_no_name_is_guessed_to_be_two_parts() -> None:
    names = toml_beside(columns.__file__, "tables.toml")
    listed = [name for part in PARTS for name in names[part]]

    assert len(listed) == len(set(listed))


_CELLS = st.sampled_from(
    [
        "",
        "question",
        "criterion",
        "weight",
        "id",
        "Q?",
        "a",
        "2",
        "-1",
        "20%",
        "x;y",
        "total",
    ]
) | st.text(max_size=5)


@given(st.lists(st.lists(_CELLS, max_size=5), max_size=6), st.sampled_from(",;\t"))
def test_no_table_raises_anything_but_an_error_with_its_place(
    rows: list[list[str]], delimiter: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rubrics.csv")
        with path.open("w", newline="", errors="replace") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
        with suppress(ConfigError, RubricFileError):
            list(import_tasks("table", path, on_reject=lambda _: None))


def _workbook(path: Path, *, merged: bool = False) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Physics"
    for row in (
        ["Question", "Criterion", "Points"],
        [ROD, "Names atoms", 2],
        [None, "Names the length", 0.5],
    ):
        book.active.append(row)
    if merged:
        book.active.merge_cells("A2:A3")
    book.create_sheet("Other").append(["criterion", "question"])
    book["Other"].append(["b", ICE])
    book.save(path)
    return path


def test_what_a_workbook_hides_is_said_to_be_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = _workbook(tmp_path / "rubrics.xlsx")
    book = openpyxl.load_workbook(path)
    page = book["Physics"]
    for row in (1, 3, 4):  # the names of the columns, and a row without a cell
        page.row_dimensions[row].hidden = True
    page.sheet_state = "hidden"
    book.active = book["Other"]
    book.save(path)

    ((found,), notes) = _read(path, sheet="Physics")

    assert len(found.task.rubric) == 2
    assert "sheet 'Physics' is read, which the workbook hides" in notes
    assert "read like the others, though the workbook hides it: row 3" in notes


@pytest.mark.parametrize("merged", [False, True])
def test_a_workbooks_first_sheet_is_read_or_the_one_that_is_named(
    tmp_path: Path, *, merged: bool
) -> None:
    path = _workbook(tmp_path / "rubrics.xlsx", merged=merged)
    ((found,), notes) = _read(path)
    assert [c.weight for c in found.task.rubric] == [2.0, 0.5]
    assert notes[0] == "sheet 'Physics' is read; not read: 'Other' (--sheet NAME)"

    ((other,), _) = _read(path, sheet="Other")
    assert other.task.question == ICE
    assert "has no sheet 'C': its sheets are 'Physics', 'Other'" in _fails(
        path, sheet="C"
    )


def test_a_first_sheet_without_a_table_names_the_other_sheets(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "rubrics.xlsx"
    book = openpyxl.load_workbook(_workbook(path))
    for title, cells in (("Read me", ["Version 3, do not edit"]), ("Blank", [])):
        front = book.create_sheet(title, 0)
        front.append(cells)
        book.save(path)

        error = _fails(path)

        assert "other sheets: " in error
        assert "'Physics', 'Other' (--sheet NAME)" in error
        assert "has : " not in error


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_first_sheet_is_read_only_by_name(tmp_path: Path, state: str) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = _workbook(tmp_path / "rubrics.xlsx")
    book = openpyxl.load_workbook(path)
    old = book.create_sheet("Old", 0)
    old.append(["question", "criterion"])
    old.append([ICE, "what nobody sees"])
    old.sheet_state = state
    book.save(path)

    ((found,), notes) = _read(path)

    assert found.task.question == ROD
    assert notes[0].startswith("sheet 'Physics' is read; not read: 'Old', 'Other'")
    ((hidden,), _) = _read(path, sheet="Old")
    assert hidden.task.question == ICE


def test_a_workbook_whose_cells_name_no_style_of_it_is_not_readable(
    tmp_path: Path,
) -> None:
    path = _workbook(tmp_path / "rubrics.xlsx")
    sheet = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    # As a program saves it that counts its styles from 1.
    parts[sheet] = parts[sheet].replace(b'<c r="C2"', b'<c r="C2" s="99"')
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)

    error = _fails(path)

    assert "not a readable .xlsx file (IndexError)" in error
    assert "save it again" in error


def test_a_formula_that_was_never_computed_is_a_missing_weight(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "rubrics.xlsx"
    book = openpyxl.Workbook()
    for row in (["question", "criterion", "weight"], ["Q?", "a", 1], ["", "b", "=1+1"]):
        book.active.append(row)
    book.save(path)

    error = _fails(path)
    assert ":3: row 3 has no weight" in error
    assert "a formula has a value only after a spreadsheet has saved the file" in error


Rows = list[list[object]]


def _saved(path: Path, rows: Rows, formats: dict[str, str] | None = None) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, shown in (formats or {}).items():
        book.active[cell].number_format = shown
    book.save(path)
    return path


WHOLE: list[object] = ["Question", "Criterion", "Weight", "Model answer"]


@pytest.mark.parametrize(
    ("value", "shown", "text"),
    [
        (0.475, "0.0%", "47.5%"),
        (0.07, "0%", "7%"),
        (-0.5, "0%;[Red]-0%", "-50%"),
        (0.5, '0.0" % of all"', "0.5"),
        (0.5, r"0.0\%", "0.5"),
        ("One._x000D_\nTwo._x000D_", "@", "One.\nTwo."),
        (datetime(2026, 3, 1), "yyyy-mm-dd", "2026-03-01"),  # noqa: DTZ001
        (datetime(2026, 3, 1), "d/m/yy h:mm", "2026-03-01 00:00:00"),  # noqa: DTZ001
        (datetime(2026, 3, 1, 9), "d/m/yy", "2026-03-01 09:00:00"),  # noqa: DTZ001
    ],
)
def test_a_workbooks_values_are_read_as_they_are_shown(
    tmp_path: Path, value: object, shown: str, text: str
) -> None:
    rows: Rows = [WHOLE, ["Q?", "a", 1, value]]
    ((found,), _) = _read(_saved(tmp_path / "rubrics.xlsx", rows, {"D2": shown}))

    assert found.task.reference_answer == text


def test_weights_in_percent_and_others_do_not_mix_in_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "rubrics.xlsx"
    rows: Rows = [WHOLE, ["Q?", "a", 0.6], ["", "b", 40]]

    assert ":3: the weight of row 3 is 40, and others" in _fails(
        _saved(path, rows, {"C2": "0%"})
    )
    rows[2][2] = "40%"
    ((found,), _) = _read(_saved(path, rows, {"C2": "0%"}))
    assert [criterion.weight for criterion in found.task.rubric] == [60, 40]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([["Q?", "a", "=1+1"], ["", "b", "=2*3"]], ":2: row 2 has no weight: cell C2"),
        ([["Q?", '="a"', 1]], ":2: row 2 has no criterion: cell B2 holds a formula"),
        ([["Q?", '="a"', "=1"]], ":2: row 2 has no criterion: cell B2 holds a formula"),
        ([["Q?", "a", 1], [None, '="b"', "=1"]], ":3: row 3 has no criterion: cell B3"),
        (
            [["Q?", "a", 1, '="c"']],
            ":2: row 2 has no reference: cell D2 holds a formula",
        ),
        ([["Q?", "a", 1, "#REF!"]], "cell D2 holds the error #REF!: put the formula"),
        ([["#N/A", "a", 1]], ":2: row 2 has no question: cell A2 holds the error #N/A"),
    ],
)
def test_a_cell_without_its_value_is_an_error(
    tmp_path: Path, rows: Rows, problem: str
) -> None:
    assert problem in _fails(_saved(tmp_path / "rubrics.xlsx", [WHOLE, *rows]))


def test_criteria_below_a_question_that_is_not_known_are_of_no_other(
    tmp_path: Path,
) -> None:
    rows: Rows = [WHOLE, ["Q?", "a", 1], ['="Why"&"?"', "b", 1], [None, "c", 1]]
    path = _saved(tmp_path / "rubrics.xlsx", rows)
    rejected: list[RubricFileError] = []

    (found,) = import_tasks("table", path, on_reject=rejected.append)

    assert [criterion.description for criterion in found.task.rubric] == ["a"]
    assert [error.line for error in rejected] == [3]


def test_a_formula_that_was_computed_to_nothing_is_an_empty_cell(
    tmp_path: Path,
) -> None:
    rows: Rows = [WHOLE, ["Q?", "a", 1, '=""'], [None, "b", 2]]
    path = _saved(tmp_path / "rubrics.xlsx", rows)
    sheet = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    assert parts[sheet].count(b'<c r="D2"') == 1
    # As Excel and LibreOffice save it.
    parts[sheet] = parts[sheet].replace(b'<c r="D2"', b'<c r="D2" t="str"')
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)

    ((found,), _) = _read(path)

    assert found.task.reference_answer is None


def test_an_error_that_a_spreadsheet_wrote_as_text_is_one(write: Write) -> None:
    error = _fails(write(f"{HEAD}\nQ?,#DIV/0!,1\n"))

    assert "row 2 has no criterion: cell B2 holds the error #DIV/0!" in error


def test_a_workbook_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _workbook(tmp_path / "rubrics.xlsx")
    with zipfile.ZipFile(path) as parts:
        size = sum(part.file_size for part in parts.infolist())
    limit = "rubric_core.formats.spreadsheets._MOST_WORKBOOK_BYTES"
    monkeypatch.setattr(limit, size)
    assert len(_read(path)[0]) == 1

    monkeypatch.setattr(limit, size - 1)
    assert f"the workbook has {size} bytes unpacked" in _fails(path)


def test_a_workbook_without_openpyxl_names_the_extra(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"rubric-core\[xlsx\]"):
        _read(write(b"PK", "rubrics.xlsx"))
