"""lm-eval's own command line, with our tasks and a cache for each model.

lm-eval keys its cache by prompt and decoding and not by model: with one path for two models, the
second would get the answers of the first. The path therefore gets the model's fingerprint.
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rubric_core import RubricError
from rubric_core.files import open_file, text_sha256
from rubric_eval.errors import EvalConfigError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.building import harness
from rubric_judge.ui.yaml_files import read_yaml

_REWRITTEN = argparse.ArgumentParser("lm-eval run", add_help=False)
"""Parser of the arguments that are replaced before lm-eval sees them."""
_REWRITTEN.add_argument("--config", "-C")
_REWRITTEN.add_argument("--include_path", nargs="*", action="extend", default=[])
_REWRITTEN.add_argument("--use_cache", "-c")
_INSPECTED = argparse.ArgumentParser("lm-eval run", add_help=False)
"""Parser of the arguments that are read and passed on."""
_INSPECTED.add_argument("--limit", "-L")
_INSPECTED.add_argument("--model", "-M")
_INSPECTED.add_argument("--model_args", "-a", nargs="*", action="extend", default=[])


def read_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the arguments that matter here; as in lm-eval, the leading `run` may be left out.

    Args:
        arguments: arguments of `lm-eval run`.

    Returns:
        Their values, and all arguments except those that the pass-through replaces.
    """
    words = arguments[1:] if arguments[:1] in (["run"], ("run",)) else arguments
    namespace, rest = _REWRITTEN.parse_known_args(words)
    parts: list[str] = []
    for word in rest:
        # `--model_args=a=1 b=2` has two values, but argparse takes only one word after "=".
        if word.startswith("--model_args="):
            parts += word.split("=", 1)
        else:
            parts.append(word)
    _INSPECTED.parse_known_args(parts, namespace=namespace)
    return namespace, rest


def cache_key(
    model: str, model_args: Mapping[str, Any] | Sequence[str] | str | None
) -> str:
    """Return 16 hex digits that two models never share.

    A local folder or file among the arguments counts by its content: a checkpoint that is trained
    further and saved again under its old name is another model. A name on the Hub counts by itself,
    with its `revision`.

    Args:
        model: lm-eval's kind of model, such as "hf".
        model_args: arguments as key=value or JSON, or as in a file of arguments.
    """
    content: list[list[object]] = []
    for key, value in sorted(_pairs(model_args), key=lambda pair: pair[0]):
        digests = [_digest(text) for text in _texts(value)]
        content.append([key, _canonical(value), digests])
    canonical = json.dumps([model, content], separators=(",", ":"))
    return text_sha256(canonical)[:16]


def _pairs(
    model_args: Mapping[str, Any] | Sequence[str] | str | None,
) -> Iterator[tuple[str, Any]]:
    """Read arguments as lm-eval does: a JSON object, or key=value between commas."""
    if isinstance(model_args, Mapping):
        for key, value in model_args.items():
            yield str(key), value
        return
    read_pairs = harness("lm_eval._cli.utils").key_val_to_dict
    texts = [model_args] if isinstance(model_args, str) else model_args or ()
    for text in texts:
        try:
            pairs: Any = json.loads(text)
        except ValueError:
            pairs = None
        try:
            if not isinstance(pairs, dict):
                pairs = read_pairs(text)
            yield from cast("dict[str, Any]", pairs).items()
        except ValueError:  # lm-eval says what is wrong with it
            yield text, ""


def _canonical(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=repr)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a value, since any of them may name a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        for _, part in sorted(items, key=repr):
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in cast("Sequence[object]", value):
            yield from _texts(part)


def _digest(value: str) -> str | None:
    """Return the hash of the file or folder at a path; None if the text is not a path."""
    path = Path(value).expanduser()
    try:
        if not value or not path.exists():
            return None
        if path.is_file():
            files = [path]
        else:
            files = sorted(file for file in path.rglob("*") if file.is_file())
    except OSError:  # longer than a file name may be
        return None
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        digest.update(json.dumps([name, file.stat().st_size]).encode())
        with open_file(file) as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


_COMMANDS = frozenset({"run", "ls", "list", "validate"})


def run_lm_eval(arguments: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Run lm-eval's command line in this process.

    Args:
        arguments: arguments of `lm-eval`.
        say: function that prints a note.

    Returns:
        The exit status of lm-eval.

    Raises:
        MissingExtraError: lm-eval is not installed.
        ConfigError: a file of arguments cannot be read, or lm-eval refuses the arguments.
        RubricError: one of our tasks failed.
    """
    main = harness("lm_eval.__main__").cli_evaluate
    command = arguments[0] if arguments and arguments[0] in _COMMANDS else None
    with tempfile.TemporaryDirectory() as folder:
        words = list(arguments)
        if command in {"ls", "list", "validate"}:
            words = _with_tasks(words, say)
        elif arguments and not {"-h", "--help"} & set(arguments):
            namespace, rest = read_arguments(arguments)
            words = _run_arguments(namespace, rest, Path(folder), say)
        return _call(main, words)


def _run_arguments(
    arguments: argparse.Namespace,
    rest: list[str],
    folder: Path,
    say: Callable[[str], None],
) -> list[str]:
    """Write the replaced arguments to a file, where several folders of tasks can be named."""
    settings: dict[str, Any] = {}
    if arguments.config is not None:
        content = read_yaml(Path(arguments.config))
        if not isinstance(content, dict):
            raise EvalConfigError(
                f"{arguments.config}: holds no mapping of lm-eval's arguments"
            )
        items = cast("dict[object, Any]", content).items()
        settings = {str(key): value for key, value in items}
    limit = arguments.limit or settings.get("limit")
    if limit is not None and _is_nothing(limit):
        raise EvalConfigError(
            f"limit {limit} leaves no item: give one above 0, or leave it out"
        )
    include: Any = arguments.include_path or settings.get("include_path") or []
    if isinstance(include, str):
        include = [include]
    settings["include_path"] = [str(TASKS_PATH), *include]
    cache = arguments.use_cache or settings.pop("use_cache", None)
    if cache is not None:
        model = arguments.model or str(settings.get("model") or "hf")
        model_args = arguments.model_args or settings.get("model_args")
        keyed = f"{cache}.{cache_key(model, model_args)}"
        say(f"rubric-eval: answers of this model are cached in {keyed}_rank*.db")
        rest += ["--use_cache", keyed]
    path = folder / "arguments.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    return ["run", *rest, "--config", str(path)]


def _with_tasks(arguments: list[str], say: Callable[[str], None]) -> list[str]:
    """Add our folder of tasks, unless the user names another one."""
    names = [argument.split("=", 1)[0] for argument in arguments]
    if "--include_path" in names:
        say(
            "rubric-eval: `ls` and `validate` of lm-eval take one --include_path; yours is used, "
            "so our tasks are not among what follows"
        )
        return arguments
    return [*arguments, "--include_path", str(TASKS_PATH)]


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
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201  # as the interpreter would
            return 1
        return end.code or 0
    except RubricError:
        raise
    except (AssertionError, ValueError) as error:  # lm-eval refuses its arguments
        if logging.getLogger("lm_eval").isEnabledFor(logging.DEBUG):
            raise
        kind = type(error).__name__
        raise EvalConfigError(
            f"lm-eval ended with {kind}: {error} (LMEVAL_LOG_LEVEL=DEBUG says where)"
        ) from error
    finally:
        sys.argv = before
    return 0
