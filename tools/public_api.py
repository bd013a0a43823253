"""Write the snapshot of every name that users are meant to import: `tests/public_api.txt`."""

import ast
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = ROOT / "tests" / "public_api.txt"

# Patterns of modules. What other modules hold may move without notice.
PUBLIC = (
    "rubric_core",
    "rubric_core.formats",
    "rubric_judge",
    "rubric_judge.adapters.*",
    "rubric_judge.testing",
    "rubric_sandbox",
    "rubric_synth",
    "rubric_synth.testing",
    "rubric_train_openrlhf",
    "rubric_train_openrlhf.objective",
    "rubric_train_openrlhf.policy",
    "rubric_eval",
    "rubric_eval.comparison",
    "rubric_eval.statistics",
)


def exported(path: Path) -> list[str]:
    """Return the names of a package's stub or of a module's `__all__`, or none."""
    if (stub := path.with_suffix(".pyi")).exists():
        return [
            alias.asname or alias.name
            for node in ast.parse(stub.read_text("utf-8")).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
    tree = ast.parse(path.read_text("utf-8"), filename=str(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def public_names() -> list[str]:
    """Return `module.name` for every exported name of every public module, sorted."""
    names: list[str] = []
    for source in sorted(ROOT.glob("packages/*/src")):
        for path in source.rglob("*.py"):
            module = (
                path.relative_to(source).with_suffix("").as_posix().replace("/", ".")
            )
            module = module.removesuffix(".__init__")
            if any(fnmatch(module, pattern) for pattern in PUBLIC):
                names.extend(f"{module}.{name}" for name in exported(path))
    return sorted(names)


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(public_names()) + "\n", "utf-8")
    print(f"wrote {SNAPSHOT.relative_to(ROOT)}: {len(public_names())} names")
