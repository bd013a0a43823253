"""What the policy may look up: sections, their ranking, and the datasets that hold them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import ConfigError, Section, Task, leaked_ngrams, read_tasks
from rubric_synth import (
    SynthConfig,
    check_dataset,
    dataset_statistics,
    load_config,
    synthesise,
)
from rubric_synth.cli import main
from rubric_synth.collect.folder import document_line
from rubric_synth.config import ContextConfig
from rubric_synth.document import Document
from rubric_synth.errors import CollectedFolderError
from rubric_synth.lookup.bm25 import Bm25
from rubric_synth.lookup.cutting import cut
from rubric_synth.lookup.recall import counts_of
from rubric_synth.lookup.sections import Lookup
from rubric_synth.run.dataset.folder import question_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = " ".join(f"Word number{n} follows the one before." for n in range(30))


def document(text: str, *, title: str = "Pumps") -> Document:
    return Document(title=title, text=text, source="notes/pumps.md")


def test_a_document_is_cut_at_headings_and_paragraphs() -> None:
    text = (
        f"# Pumps\n\nA pump moves water.\n\n## Seals\n\n{' '.join(['seal'] * 28)}\n\n"
        "## Valves\nA valve opens at 6 bar.\n\n- one\n- two\n"
    )
    found = cut(document(text), most_words=36)

    assert [(one.heading, one.text[:40]) for one in found] == [
        ("Pumps", "A pump moves water.\n\nSeals\nseal seal sea"),
        ("Pumps: Valves", "A valve opens at 6 bar.\n\n- one\n- two"),
    ]
    assert {one.doc_hash for one in found} == {document(text).doc_hash}


def test_a_long_paragraph_is_cut_at_sentences_and_a_long_sentence_at_words() -> None:
    found = cut(document(f"{LONG}\n\n{'x ' * 70}"), most_words=40)

    assert all(len(one.text.split()) <= 40 for one in found)
    assert found[0].text.endswith("before.")
    together = " ".join(one.text for one in found)
    assert " ".join(together.split()) == " ".join(f"{LONG} {'x ' * 70}".split())


@given(st.text(alphabet="ab .\n#", max_size=300), st.integers(30, 60))
def test_no_section_is_longer_than_it_may_be_or_blank_or_there_twice(
    text: str, most: int
) -> None:
    if not text:
        return
    found = cut(document(text), most_words=most)

    assert all(one.text.strip() and len(one.text.split()) <= most for one in found)
    assert len(set(found)) == len(found)


TEXTS = (
    "the pump moves water",
    "a valve opens",
    "the pump and the pump",
    "a valve opens",
)


def index_of(*texts: str) -> Bm25:
    index = Bm25()
    for text in texts:
        index.add(text)
    return index


def test_sections_are_ranked_by_what_they_share_with_the_question_and_ties_by_their_order() -> (
    None
):
    index, everything = index_of(*TEXTS), np.ones(4, dtype=np.bool_)

    assert index.best("Which pumps?", among=everything, most=4) == [2, 0]
    assert index.best("Is a valve opened?", among=everything, most=4) == [1, 3]
    assert index.best("Is a valve opened?", among=everything, most=1) == [1]
    assert index.best(
        "Is a valve opened?", among=np.array([0, 0, 0, 1], np.bool_), most=4
    ) == [3]
    assert index.best("Nothing of it", among=everything, most=4) == []


def test_scores_are_those_of_the_formula() -> None:
    """Lucene's BM25: idf · tf / (tf + k1 · (1 - b + b · length / mean))."""
    index = index_of(*TEXTS)
    index.best("pump", among=np.ones(4, dtype=np.bool_), most=4)
    (token,) = (index._vocabulary[one] for one in ("pump",))
    scores = index._library.get_scores_from_ids([token])

    idf = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    mean = (3 + 2 + 2 + 2) / 4
    expected = [
        idf * tf / (tf + 1.5 * (0.25 + 0.75 * length / mean))
        for tf, length in ((1, 3), (0, 2), (2, 2), (0, 2))
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("given_value", "problem"),
    [
        ("bm25:0", "'bm25:0': a number of sections, 1 or more, follows the colon"),
        ("bm25:x", "'bm25:x': a number of sections, 1 or more, follows the colon"),
        ("bm25:-1", "'bm25:-1': a number of sections"),
        ("bm25", "'bm25': a number of sections, 1 or more, follows the colon"),
        ("bm25:99", "sections: must be 20 or less, not 99"),
        ("faiss:2", "'faiss' is no retriever; known are bm25: write bm25:2"),
        ("", "'' is no retriever"),
    ],
)
def test_a_context_that_cannot_be_is_refused(
    tmp_path: Path, given_value: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "synth.yaml"
    path.write_text(yaml.safe_dump({"context": given_value}))
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert "context" in str(error.value)
    assert problem in str(error.value)
    with pytest.raises(SystemExit) as stop:
        main(["run", "c", "--out", "d", "--context", given_value])
    assert stop.value.code
    said = " ".join(capsys.readouterr().err.split())
    assert "the command line" in said
    assert problem in said


def test_the_short_form_is_the_long_one(tmp_path: Path) -> None:
    path = tmp_path / "synth.yaml"
    path.write_text("context: {sections: 3, section_words: 90}")

    assert load_config(path).context == ContextConfig(sections=3, section_words=90)
    assert SynthConfig.model_validate({"context": "bm25:3"}).context == ContextConfig(
        sections=3
    )


def test_a_closed_book_configuration_is_what_it_was() -> None:
    assert "context" not in SynthConfig().model_dump(mode="json")
    assert "context" not in json.loads(SynthConfig().model_dump_json())


def collection(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    lines = (
        document_line(document(text, title=f"T{n}")) for n, text in enumerate(texts)
    )
    (folder / "documents.jsonl").write_bytes(b"".join(lines))
    return folder


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ((), "0 sections in 0 documents"),
        (("A pump moves water.",), "1 sections in 1 documents"),
    ],
)
def test_a_collection_with_nothing_to_choose_from_is_refused_before_any_work(
    tmp_path: Path, texts: tuple[str, ...], found: str
) -> None:
    collected, out = collection(tmp_path / "c", *texts), tmp_path / "d"
    config = SynthConfig.model_validate({"context": "bm25:1"})
    with pytest.raises(
        CollectedFolderError, match=f"has {found}, and a context takes 1 of them"
    ):
        synthesise(collected, out, config=config)
    assert not (out / "manifest.json").exists()


ROW = {
    "question": "At which pressure does the relief valve of the pump open?",
    "passage": "A relief valve opens at 6 bar.",
    "criteria": [
        {"id": "c", "weight": 1, "description": "Says that it opens at 6 bar."}
    ],
    "doc_hash": "d",
}


def lookup_of(tmp_path: Path, *texts: str, sections: int = 2) -> Lookup:
    config = SynthConfig.model_validate(
        {"context": {"sections": sections, "section_words": 30}}
    )
    assert config.context is not None
    return Lookup(collection(tmp_path / "c", *texts), config, config.context)


def test_a_section_that_tells_of_the_rubric_is_passed_over_and_counted(
    tmp_path: Path,
) -> None:
    told = "Says that the relief valve of the pump opens at six bar of pressure"
    row = {**ROW, "criteria": [{"id": "c", "weight": 1, "description": told}]}
    lookup = lookup_of(
        tmp_path, f"Solution: {told}.", "A pump has a valve.", "Dogs sleep."
    )
    found, counts = lookup.add_to(row, split="test")
    lookup.close()

    assert [one["text"] for one in found["context"]] == ["A pump has a valve."]
    assert counts.passed_over == 1
    assert leaked_ngrams(Task.from_json(found)) == ()


def test_without_a_shared_word_there_is_no_context(tmp_path: Path) -> None:
    lookup = lookup_of(tmp_path, "Dogs sleep.", "Cats sleep.", "Cows sleep.")
    found, counts = lookup.add_to(ROW, split="test")
    lookup.close()

    assert found == ROW
    assert counts.tasks == 0


def test_a_task_looks_up_no_document_of_a_later_split(tmp_path: Path) -> None:
    texts = [f"The relief valve of pump {n} opens." for n in range(40)]
    lookup = lookup_of(tmp_path, *texts, sections=20)
    levels = {}
    for split in ("train", "validation", "test"):
        row, _ = lookup.add_to(ROW, split=split)
        levels[split] = {
            lookup._config.split_of(one["doc_hash"]) for one in row["context"]
        }
    lookup.close()

    assert levels["train"] == {"train"}
    assert "test" not in levels["validation"]


def test_what_a_context_holds_of_the_own_passage_is_counted() -> None:
    passage = "One two three four five six seven eight nine ten eleven twelve."
    row = {**ROW, "passage": passage}
    half = Section(
        doc_hash="d", text="one two three four five six seven eight nine ten"
    )
    other = Section(
        doc_hash="e", text="Nothing of it is here, and nothing of it is there."
    )
    counts = counts_of(
        Task.from_json(row | {"context": [half.model_dump(), other.model_dump()]})
    )

    assert (counts.own_document, counts.own_passage, counts.sections) == (1, 1, 2)
    assert counts.passage_share == pytest.approx(3 / 5)
    assert counts_of(Task.from_json(row)).tasks == 0


def rows_of(folder: Path) -> dict[str, list[dict[str, object]]]:
    return {
        split: [
            json.loads(line)
            for line in (folder / f"{split}.jsonl").read_text().splitlines()
        ]
        for split in ("train", "validation", "test")
    }


def test_a_run_with_contexts_makes_the_same_tasks_and_gives_each_its_context(
    tmp_path: Path, collected: Callable[[], Path], settings: SynthConfig
) -> None:
    source, closed, opened = collected(), tmp_path / "closed", tmp_path / "opened"
    synthesise(source, closed, config=settings)
    config = SynthConfig.model_validate(settings.model_dump() | {"context": "bm25:2"})
    report = synthesise(source, opened, config=config)

    without = {
        split: [
            {key: one for key, one in row.items() if key != "context"} for row in rows
        ]
        for split, rows in rows_of(opened).items()
    }
    assert without == rows_of(closed)
    assert sum(report.tasks.values()) > 5
    tasks = [
        task for split in report.tasks for task in read_tasks(opened / f"{split}.jsonl")
    ]
    assert all(task.context and len(task.context) <= 2 for task in tasks)
    assert check_dataset(opened).problems == ()
    manifest = json.loads((opened / "manifest.json").read_text())
    assert manifest["config"]["context"]["sections"] == 2
    assert manifest["context"]["own_passage"] >= 0.8 * manifest["context"]["tasks"] > 4
    assert "context" not in json.loads((closed / "manifest.json").read_text())

    card = (opened / "README.md").read_text()
    assert "its own passage (recall)" in card
    assert "`question` and `context`" in card
    assert "context" not in (closed / "README.md").read_text()
    statistics = dataset_statistics(opened)
    assert statistics.context is not None
    assert statistics.context.model_dump() == pytest.approx(manifest["context"])
    assert {"context_start", "nearest_sentences"} <= statistics.controls.keys()
    page = (opened / "stats.html").read_text()
    assert "<h2>Context</h2>" in page
    # Each line of its table leads to tasks that are so marked.
    for kind in ("any context", "own document", "own passage"):
        assert f'href="#context={kind.replace(" ", "%20")}"' in page
        assert f"&#34;{kind}&#34;" in page


def test_a_finished_dataset_is_written_again_with_contexts_and_to_the_same_bytes(
    tmp_path: Path, collected: Callable[[], Path], settings: SynthConfig
) -> None:
    source, out = collected(), tmp_path / "d"
    config = SynthConfig.model_validate(settings.model_dump() | {"context": "bm25:2"})
    synthesise(source, out, config=config)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    synthesise(source, out, config=settings)
    assert "context" not in json.loads((out / "manifest.json").read_text())
    synthesise(source, out, config=config)

    assert {
        path.name: path.read_bytes() for path in out.iterdir() if path.is_file()
    } == before


def test_the_command_prints_how_often_the_own_passage_is_found(
    tmp_path: Path,
    collected: Callable[[], Path],
    settings: SynthConfig,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = SynthConfig.model_validate(settings.model_dump() | {"context": "bm25:1"})
    synthesise(collected(), tmp_path / "d", config=config)
    with pytest.raises(SystemExit) as stop:
        main(["stats", str(tmp_path / "d")])
    assert not stop.value.code
    assert "with a section of its own passage (recall)" in capsys.readouterr().out


def test_the_questions_of_open_book_tasks_are_written_with_their_prompts(
    tmp_path: Path, collected: Callable[[], Path], settings: SynthConfig
) -> None:
    config = SynthConfig.model_validate(settings.model_dump() | {"context": "bm25:1"})
    synthesise(collected(), tmp_path / "d", config=config)
    rows = [json.loads(line) for line in question_lines(tmp_path / "d", split="train")]

    tasks = list(read_tasks(tmp_path / "d" / "train.jsonl"))
    assert [row["prompt"] for row in rows] == [
        task.policy_view().message for task in tasks
    ]
