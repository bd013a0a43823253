"""lm-eval's own command line, given our tasks and a cache for each model.

lm-eval keys its cache by prompt and decoding and not by model: one path used for two models gives
the second one the first one's answers. So the path that is given gets the model's fingerprint.
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from rubric_core import RubricError
from rubric_core.files import open_file
from rubric_eval.errors import EvalConfigError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.building import harness
from rubric_judge.yaml_files import read_yaml

_TAKEN: Final = argparse.ArgumentParser("lm-eval run", add_help=False)
_TAKEN.add_argument("--config", "-C")
_TAKEN.add_argument("--include_path", nargs="*", action="extend", default=[])
_TAKEN.add_argument("--use_cache", "-c")
_READ: Final = argparse.ArgumentParser("lm-eval run", add_help=False)
_READ.add_argument("--limit", "-L")
_READ.add_argument("--model", "-M")
_READ.add_argument("--model_args", "-a", nargs="*", action="extend", default=[])


def read_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Find the arguments that matter; the word `run` in front may be left out, as lm-eval has it.

    Args:
        arguments: of `lm-eval run`.

    Returns:
        What they say, and all of them but those that the pass-through writes anew.
    """
    words = arguments[1:] if arguments[:1] in (["run"], ("run",)) else arguments
    namespace, rest = _TAKEN.parse_known_args(words)
    # `--model_args=a=1 b=2` is both: what argparse takes after "=" is one word.
    parts = [
        word.split("=", 1) if word.startswith("--model_args=") else [word]
        for word in rest
    ]
    _READ.parse_known_args(
        [part for words in parts for part in words], namespace=namespace
    )
    return namespace, rest


def cache_key(
    model: str, model_args: Mapping[str, Any] | Sequence[str] | str | None
) -> str:
    """Return 16 hex digits that two models never share.

    A local folder or file among the arguments counts by its content: a checkpoint that is trained
    on and saved again under its old name is another model. A name on the Hub counts by itself, with
    its `revision`.

    Args:
        model: lm-eval's kind of model, such as "hf".
        model_args: as they were given, key=value or JSON, or as a file of arguments has them.
    """
    pairs = sorted(_pairs(model_args), key=lambda pair: pair[0])
    content = [
        [key, _canonical(value), [_content(text) for text in _texts(value)]]
        for key, value in pairs
    ]
    canonical = json.dumps([model, content], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _pairs(
    given: Mapping[str, Any] | Sequence[str] | str | None,
) -> Iterator[tuple[str, Any]]:
    """Read arguments as lm-eval does: a JSON object, or key=value between commas."""
    if isinstance(given, Mapping):
        yield from ((str(key), value) for key, value in given.items())
        return
    read_pairs = harness("lm_eval._cli.utils").key_val_to_dict
    for text in [given] if isinstance(given, str) else given or ():
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        try:
            yield from (found if isinstance(found, dict) else read_pairs(text)).items()
        except ValueError:  # lm-eval says what is wrong with it
            yield text, ""


def _canonical(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, default=repr)
    )


def _texts(value: object) -> Iterator[str]:
    """Every text of a value, for any may name a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for _, one in sorted(cast("Mapping[object, object]", value).items(), key=repr):
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in cast("Sequence[object]", value):
            yield from _texts(one)


def _content(value: str) -> str | None:
    path = Path(value).expanduser()
    try:
        if not value or not path.exists():
            return None
        files = (
            [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
        )
    except OSError:  # longer than a name may be
        return None
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        digest.update(json.dumps([name, file.stat().st_size]).encode())
        with open_file(file) as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


_COMMANDS: Final = frozenset({"run", "ls", "list", "validate"})


def run_lm_eval(arguments: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Run lm-eval's command line in this process.

    Args:
        arguments: as `lm-eval` takes them.
        say: where notes go.

    Returns:
        Its exit status.

    Raises:
        MissingExtraError: lm-eval is not installed.
        ConfigError: a file of arguments that cannot be read, or arguments that lm-eval refuses.
        RubricError: what our tasks raise.
    """
    main = harness("lm_eval.__main__").cli_evaluate
    command = arguments[0] if arguments and arguments[0] in _COMMANDS else None
    with tempfile.TemporaryDirectory() as folder:
        given = list(arguments)
        if command in {"ls", "list", "validate"}:
            given = _with_tasks(given, say)
        elif arguments and not {"-h", "--help"} & set(arguments):
            given = _run_arguments(*read_arguments(arguments), Path(folder), say)
        return _call(main, given)


def _run_arguments(
    arguments: argparse.Namespace,
    rest: list[str],
    folder: Path,
    say: Callable[[str], None],
) -> list[str]:
    """Move what must change into a file of arguments, which can name several folders of tasks."""
    settings: dict[str, Any] = {}
    if arguments.config is not None:
        content = read_yaml(Path(arguments.config))
        if not isinstance(content, dict):
            raise EvalConfigError(
                f"{arguments.config}: holds no mapping of lm-eval's arguments"
            )
        settings = {
            str(key): value for key, value in cast("dict[object, Any]", content).items()
        }
    limit = arguments.limit or settings.get("limit")
    if limit is not None and _is_nothing(limit):
        raise EvalConfigError(
            f"limit {limit} leaves no item: give one above 0, or leave it out"
        )
    own: Any = settings.get("include_path")
    listed = [own] if isinstance(own, str) else cast("list[str]", own or [])
    settings["include_path"] = [str(TASKS_PATH), *(arguments.include_path or listed)]
    cache = arguments.use_cache or settings.pop("use_cache", None)
    if cache is not None:
        model = arguments.model or str(settings.get("model") or "hf")
        keyed = f"{cache}.{cache_key(model, arguments.model_args or settings.get('model_args'))}"
        say(f"rubric-eval: answers of this model are cached in {keyed}_rank*.db")
        rest += ["--use_cache", keyed]
    path = folder / "arguments.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    return ["run", *rest, "--config", str(path)]


def _with_tasks(given: list[str], say: Callable[[str], None]) -> list[str]:
    if any(one.split("=", 1)[0] == "--include_path" for one in given):
        say(
            "rubric-eval: `ls` and `validate` of lm-eval take one --include_path; yours is used, "
            "so our tasks are not among what follows"
        )
        return given
    return [*given, "--include_path", str(TASKS_PATH)]


def _is_nothing(limit: object) -> bool:
    try:
        return float(str(limit)) <= 0
    except ValueError:
        return False  # argparse says what is wrong with it


def _call(main: Callable[[], None], arguments: Sequence[str]) -> int:
    before = sys.argv
    sys.argv = ["lm-eval", *arguments]
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)  # noqa: T201  # what the interpreter would do
            return 1
        return ended.code or 0
    except RubricError:
        raise
    except (
        AssertionError,
        ValueError,
    ) as error:  # how lm-eval refuses what it was given
        if logging.getLogger("lm_eval").isEnabledFor(logging.DEBUG):
            raise
        kind = type(error).__name__
        raise EvalConfigError(
            f"lm-eval ended with {kind}: {error} (LMEVAL_LOG_LEVEL=DEBUG says where)"
        ) from error
    finally:
        sys.argv = before
    return 0
