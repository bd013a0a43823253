"""`rubric-judge init`: files to start from."""

from __future__ import annotations

from pathlib import Path

from rubric_judge.console.command import console
from rubric_judge.starting import example_files, preset, write_new


def init(folder: Path, /, *, judge: str = "lexical") -> int:
    """Write judge.yaml, and tasks and answers to try it on, into a folder.

    Example: rubric-judge init first

    Nothing is overwritten. Judges: anthropic, gemini, hybrid, lexical, openai, vllm_gpt_oss_20b,
    vllm_replicas.

    Args:
        folder: Folder to write to; made where there is none.
        judge: Configuration to start from. All but lexical name a model, and a key or a server.

    Returns:
        Exit status.
    """
    written = write_new(
        folder,
        {"judge.yaml": preset("rubric_judge", judge, flag="--judge"), **example_files()},
    )
    stdout = console()
    for path in written:
        stdout.print(f"wrote {path}", soft_wrap=True)
    judge_file, tasks, answers = written
    stdout.print("next:")
    stdout.print(f"rubric-judge lint {tasks}", soft_wrap=True)
    stdout.print(
        f"rubric-judge score {tasks} {answers} --judge {judge_file} "
        f"--out {folder / 'judged.jsonl'}",
        soft_wrap=True,
    )
    return 0
