"""Collecting into a folder that holds a collection: what stays, what goes, what is left whole."""

import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import FolderLockError, split_of
from rubric_synth import (
    CollectConfig,
    Document,
    OutputError,
    Rejection,
    RejectionReason,
    SourceError,
    collect,
    read_collected,
)
from rubric_synth.collect.folder import collected_hashes, read_document
from rubric_synth.collect.intake import admit

_CONFIG = CollectConfig(min_document_words=1, languages=())
_SUBJECTS = ("tide", "yeast", "steel", "orbit", "canopy", "sonar")


def _text(subject: str, variant: int) -> str:
    rng = random.Random(subject)
    words = [f"{subject}{rng.randrange(200)}" for _ in range(80)]
    words[variant] = f"variant{variant}"
    return "The " + " ".join(words) + "."


def _write(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def _splits(out: Path) -> list[tuple[str, str]]:
    return [(d.doc_hash, split_of(d.doc_hash)) for d in read_collected(out)]


_MADE = st.sets(
    st.tuples(st.sampled_from(_SUBJECTS), st.integers(0, 3)), min_size=1, max_size=8
)


@given(_MADE, _MADE)
@settings(max_examples=15, deadline=None)
def test_added_documents_move_none_of_the_old_ones(
    first: set[tuple[str, int]], second: set[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        texts = {f"{s}{v}": _text(s, v) for s, v in first}
        a = _write(root / "m", texts)
        collect([a], root / "out", config=_CONFIG)
        before = _splits(root / "out")
        # The new folder's name sorts before the old one's.
        b = _write(root / "a", {f"{s}{v}": _text(s, v) for s, v in second})
        report = collect([b, a], root / "out", config=_CONFIG)
        after = _splits(root / "out")
        assert after[: len(before)] == before
        assert (report.stayed, report.gone) == (len(before), 0)
        subjects = {subject for subject, _ in first | second}
        assert len(after) == len(subjects)
        for path in list(a.iterdir()):
            path.rename(path.with_name("z" + path.name))
        collect([a, b], root / "out", config=_CONFIG)
        assert _splits(root / "out") == after


def test_documents_that_the_sources_no_longer_give_go_and_are_counted(
    tmp_path: Path,
) -> None:
    source = _write(tmp_path / "in", {s: _text(s, 0) for s in _SUBJECTS})
    collect([source], tmp_path / "out", config=_CONFIG)
    (source / "tide.txt").unlink()
    report = collect([source], tmp_path / "out", config=_CONFIG)
    assert (report.documents, report.stayed, report.gone) == (5, 5, 1)


def test_one_text_in_two_sources_is_one_document_and_one_source_given_twice_is_one(
    tmp_path: Path,
) -> None:
    a = _write(tmp_path / "x" / "docs", {"tide": _text("tide", 0)})
    b = _write(
        tmp_path / "y" / "docs", {"tide": _text("tide", 0), "yeast": _text("yeast", 0)}
    )
    one = collect([a, b], tmp_path / "one", config=_CONFIG)
    collect([b, a, str(b) + "/"], tmp_path / "two", config=_CONFIG)
    assert one.rejected == {"exact_duplicate": 1}
    assert (
        sum(counts["documents"] for counts in one.by_source.values())
        == one.documents
        == 2
    )
    for name in ("documents.jsonl", "rejected.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (
            tmp_path / "two" / name
        ).read_bytes()


def test_the_folder_to_write_is_no_source_and_no_folder_of_others(
    tmp_path: Path,
) -> None:
    source = _write(tmp_path / "in", {"tide": _text("tide", 0)})
    for out in (source, source / "deep" / "out"):
        with pytest.raises(SourceError, match="holds the folder to write"):
            collect([source], out, config=_CONFIG)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderLockError, match="cannot write"):
        collect([source], tmp_path / "file", config=_CONFIG)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text('{"tasks": {}}')
    with pytest.raises(OutputError, match="not written by `rubric-synth collect`"):
        collect([source], tmp_path / "data", config=_CONFIG)
    assert [path.name for path in source.iterdir()] == ["tide.txt"]
    collect([source], tmp_path / "out", config=_CONFIG)
    with pytest.raises(SourceError, match="its own output"):
        collect(
            [tmp_path / "out" / "documents.jsonl"], tmp_path / "out", config=_CONFIG
        )


def test_hashes_and_single_documents_are_read_without_the_rest(tmp_path: Path) -> None:
    source = _write(tmp_path / "in", {s: _text(s, 0) + " é" for s in _SUBJECTS})
    collect([source], tmp_path / "out", config=_CONFIG)
    path = tmp_path / "out" / "documents.jsonl"
    documents = list(read_collected(tmp_path / "out"))
    for _ in range(2):
        pairs = list(collected_hashes(tmp_path / "out"))
        assert [doc_hash for doc_hash, _ in pairs] == [d.doc_hash for d in documents]
        with path.open("rb") as file:
            assert [read_document(file, offset) for _, offset in pairs] == documents
        # Another program wrote it anew, its fields in another order.
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        path.write_text(
            "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows), "utf-8"
        )


def test_hostile_text_is_a_counted_reason() -> None:
    text = _text("tide", 0)
    for title, body, source, reason in (
        ("t", text + "\0", "a", RejectionReason.BINARY),
        ("t\0", text, "a", RejectionReason.BINARY),
        ("t", text + "\ud800", "a", RejectionReason.WRONG_ENCODING),
        ("t\udcff", text, "a", RejectionReason.WRONG_ENCODING),
        ("t", text, "a\udcff", RejectionReason.WRONG_ENCODING),
        ("t", "1 2 3", "a", RejectionReason.EMPTY),
        ("t", "One.", "a", RejectionReason.TOO_SHORT),
    ):
        document = Document.model_construct(
            title=title, text=body, source=source, kind="prose"
        )
        found = admit(document, CollectConfig())
        assert isinstance(found, Rejection)
        assert found.reason is reason
        found.model_dump_json().encode()
        again = admit(found, CollectConfig())
        assert again == found


_SLOW_COLLECT = """
import sys, time
from pathlib import Path
from rubric_synth import CollectConfig, collect
def tell(at):
    print(at.step, flush=True)
    time.sleep(float(sys.argv[3]))
collect([sys.argv[1]], Path(sys.argv[2]), config=CollectConfig(min_document_words=1, languages=()),
        on_progress=tell)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_collect_leaves_the_older_folder_whole(
    tmp_path: Path, end: signal.Signals
) -> None:
    source, out = _write(tmp_path / "in", {"tide": _text("tide", 0)}), tmp_path / "out"
    collect([source], out, config=_CONFIG)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    _write(source, {s: _text(s, 0) for s in _SUBJECTS})
    command = [sys.executable, "-c", _SLOW_COLLECT, str(source), str(out), "60"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        with pytest.raises(
            FolderLockError, match=f"in use by another process, pid {process.pid}"
        ):
            collect([source], out, config=_CONFIG)
        process.send_signal(end)
        process.wait(60)
    assert {name: (out / name).read_bytes() for name in before} == before
    assert {path.name for path in out.iterdir()} - {".lock"} == set(before)
    collect([source], out, config=_CONFIG)
    assert {path.name for path in out.iterdir()} == set(before)
    assert len(list(read_collected(out))) == len(_SUBJECTS)


def test_a_real_limit_on_file_size_changes_nothing(tmp_path: Path) -> None:
    source = _write(tmp_path / "in", {s: _text(s, 0) * 30 for s in _SUBJECTS})
    out = tmp_path / "new" / "out"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        [sys.executable, "-c", _SLOW_COLLECT, str(source), str(out), "0"],
        capture_output=True, text=True, check=False, preexec_fn=limit,
    )  # fmt: skip
    assert "OutputError" in done.stderr
    assert "documents.jsonl" in done.stderr
    assert "nothing was changed" in done.stderr
    assert not (tmp_path / "new").exists()
