"""Pages of the site that are made when it is built, so that none can be out of date.

The options of every command, out of the command itself; every key of a configuration, out of the
model that checks it; and the public names, out of their docstrings (by mkdocstrings).
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, get_args

from mkdocs.structure.files import File
from public_api import public_names
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from site_errors import errors_page

from rubric_core.plugins.entry_points import plugin_names
from rubric_core.plugins.variants import Variant, find_variant
from rubric_judge.config import JudgeSpec
from rubric_synth.config import SynthConfig
from rubric_train_openrlhf import TrainConfig

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

COMMANDS: Final = {
    "rubric-synth": "rubric_synth.cli.commands",
    "rubric-judge": "rubric_judge.cli",
    "rubric-train": "rubric_train_openrlhf.cli",
    "rubric-eval": "rubric_eval.cli",
}
JUDGES: Final[tuple[type[BaseModel], ...]] = get_args(get_args(JudgeSpec)[0])
CONFIGURATIONS: Final[Mapping[str, tuple[str, str, tuple[type[BaseModel], ...]]]] = {
    "judge": ("a judge", "`rubric-judge … --judge judge.yaml`", JUDGES),
    "synth": ("synthesis", "`rubric-synth … --config synth.yaml`", (SynthConfig,)),
    "train": ("training", "`rubric-train run train.yaml`", (TrainConfig,)),
}
UNITS: Final = {
    "_s": "seconds",
    "_tokens": "tokens",
    "_words": "words",
    "_chars": "characters",
    "_bytes": "bytes",
    "_mb": "MB",
    "_usd": "US dollars",
    "_usd_per_mtok": "US dollars for a million tokens",
    "_frac": "a share",
    "rpm": "a minute",
    "tpm": "a minute",
}
"""What a key is counted in, by how its name ends."""
YAML_WORDS: Final = {None: "null", True: "true", False: "false"}
_BOUNDS: Final = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "minLength": "length ≥",
    "minItems": "items ≥",
}


def pages() -> dict[str, str]:
    """Return the Markdown of every page that is made, by its path in the site."""
    made = {f"reference/commands/{name}.md": command_page(name) for name in COMMANDS}
    made |= {
        f"reference/configuration/{name}.md": keys_page(name) for name in CONFIGURATIONS
    }
    made |= {f"reference/api/{name}.md": page for name, page in api_pages()}
    return made | {"reference/errors.md": errors_page()}


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add the pages to the site; called by mkdocs."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))


# --- commands -------------------------------------------------------------------------------------


def command_page(name: str) -> str:
    """Return every command of a program with its arguments, options and defaults."""
    text: str = import_module(COMMANDS[name]).app.generate_docs(
        output_format="markdown"
    )
    _, heading, rest = text.partition(f"# {name}\n")
    body = re.sub(
        r"## Table of Contents\n.*?(?=\*\*Commands)", "", rest, flags=re.DOTALL
    )
    examples = re.sub(
        r"^Example: (.+)$", r"```console\n$ \1\n```", body, flags=re.MULTILINE
    )
    return f"{heading}{examples}"


# --- configuration --------------------------------------------------------------------------------


def keys_page(name: str) -> str:
    """Return every key of a configuration: default, values with their unit, and the reason."""
    title, used, roots = CONFIGURATIONS[name]
    lines = [f"# Every key of the configuration of {title}", ""]
    lines += [
        f"For {used}. A key that is not here is refused, with the nearest right one.",
        "",
    ]
    # Kinds of judges have sections in common.
    for at, model in dict.fromkeys(
        section for root in roots for section in _sections(root)
    ):
        lines += [f"## {_heading(at, model)}", "", inspect.getdoc(model) or "", ""]
        fields = [
            one for one in model.model_fields.items() if one[0] != _kind_key(model)
        ]
        if fields:
            lines += ["| key | default | value | what it does |", "|---|---|---|---|"]
            lines += [*(_row(model, *field) for field in fields), ""]
    return "\n".join(lines)


def _sections(
    model: type[BaseModel], at: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    """A model and those inside it, each with the dotted key where it stands."""
    yield at, model
    for key, field in model.model_fields.items():
        kinds = [*_models(field.annotation)]
        if JUDGES[0] not in kinds:  # a judge has a page of its own
            for kind in kinds:
                yield from _sections(kind, f"{at}.{key}".lstrip("."))


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that a key may hold, installed kinds of a variant among them."""
    if isinstance(annotation, type) and issubclass(annotation, Variant):
        yield from (
            find_variant(annotation, name) for name in plugin_names(annotation.group)
        )
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for inner in get_args(annotation):
            yield from _models(inner)


def _kind_key(model: type[BaseModel]) -> str:
    return model.key if issubclass(model, Variant) else "type"


def _heading(at: str, model: type[BaseModel]) -> str:
    key = _kind_key(model)
    field = model.model_fields.get(key)
    kind = f"`{key}: {field.default}`" if field is not None else ""
    return (
        " with ".join(filter(None, (f"`{at}:`" if at else "", kind))) or "The top level"
    )


def _row(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    meaning = field.description or _attribute_docstrings(model)[key]
    cells = (
        f"`{key}`",
        _default(field),
        _values(model, key),
        " ".join(meaning.split()),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None and field.default_factory_takes_validated_data:
        return "by other keys"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        kind = getattr(value, "type", None) or getattr(value, "estimator", None)
        return f"`{kind}`" if kind else "as below"
    if isinstance(value, tuple | list):
        return f"`[{', '.join(map(str, value))}]`"
    return (
        f"`{YAML_WORDS.get(value, value)}`"
        if isinstance(value, bool | None)
        else f"`{value}`"
    )


def _values(model: type[BaseModel], key: str) -> str:
    """The kind of value with its bounds and unit, out of the JSON schema."""
    schema = _schema(model)[key]
    found = " or ".join(
        dict.fromkeys(_kind(one) for one in schema.get("anyOf", [schema]))
    )
    ends = [end for end in UNITS if key.endswith(end)]
    return f"{found}; {UNITS[max(ends, key=len)]}" if ends else found


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()["properties"]


def _kind(schema: Mapping[str, Any]) -> str:
    if choices := schema.get("enum") or (
        [schema["const"]] if "const" in schema else None
    ):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "$ref" in schema or "oneOf" in schema:
        return "a section"
    bounds = [
        f"{sign} {schema[name]:g}" for name, sign in _BOUNDS.items() if name in schema
    ]
    kind = {
        "array": "list",
        "object": "mapping",
        "string": "text",
        "boolean": "`true`, `false`",
    }
    of = str(schema.get("type", "a section"))
    return ", ".join([kind.get(of, "`null`" if of == "null" else of), *bounds])


@cache
def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field, where the model does not keep it itself."""
    said: dict[str, str] = {}
    for kind in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class
        for field, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                said[ast.unparse(field.target)] = ast.literal_eval(after.value)
    return said


# --- public names ---------------------------------------------------------------------------------


def api_pages() -> Iterator[tuple[str, str]]:
    """Name each package and its page: what users import, with signatures and docstrings."""
    modules: dict[str, list[str]] = {}
    for name in public_names():
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    packages: dict[str, list[str]] = {}
    for module, names in modules.items():
        lines = packages.setdefault(module.partition(".")[0], [])
        if "." in module:
            lines += [f"## `{module}`", ""]
        lines += [line for name in names for line in (f"::: {name}", "")]
    for package, lines in packages.items():
        said = inspect.getdoc(import_module(package)) or ""
        yield package, "\n".join([f"# {package}", "", said, "", *lines])
