# One command per job; `just` alone lists them.

default:
    @just --list

# Install everything, the git hooks and the filter that keeps addresses out of uv.lock.
setup: sync
    uv run pre-commit install

# Install everything; where only addresses changed in uv.lock, `git add` lets git see that.
sync: filter
    uv sync
    git add uv.lock

[private]
filter:
    git config filter.portable-lock.clean "python3 tools/portable_lock.py --strip"
    git config filter.portable-lock.smudge cat

# Twice: the second run starts from the portable form, as every clone does, and ends where they end.
# Lock again after a change of dependencies.
lock: filter
    uv lock
    python3 tools/portable_lock.py --strip < uv.lock > uv.lock.portable
    mv uv.lock.portable uv.lock
    uv lock
    git add uv.lock

# Lock the newest release of everything.
upgrade: && lock
    uv run --no-project tools/newest_lock.py

fmt:
    uv run ruff format .
    uv run ruff check --fix .

lint:
    uv run ruff format --check .
    uv run ruff check .

types:
    uv run pyright

imports:
    uv run lint-imports

test *arguments:
    uv run pytest {{ arguments }}

# Default tests with coverage, the slow ones, other stacks' functions, real vLLM and OpenRLHF.
test-all:
    uv run pytest --cov -m "not stacks and not vllm and not openrlhf and not gpu"
    uv run --group stacks pytest -m stacks
    uv run --extra openrlhf-cpu pytest -m vllm
    uv run --extra openrlhf-cpu pytest -m openrlhf

# Build the six wheels and try each alone, on every supported Python that is here.
release *arguments:
    uv run tools/release.py {{ arguments }}

docs:
    uv run mkdocs build --strict

# In a minute or two: what no change may break; then the tests of what you changed, or `just test`.
check: lint types imports
    uv run pytest packages/rubric-core tests/test_architecture.py tests/test_asymmetry.py \
        tests/test_equations.py tests/test_imports.py tests/test_public_api.py
    uv run python tools/portable_lock.py --check
