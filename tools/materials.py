"""What a wheel brings with it: a bill of materials, its licences, known vulnerabilities."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from email.message import Message

BILL_TOOL = "cyclonedx-bom>=7,<8"
AUDIT_TOOL = "pip-audit>=2.9,<3"

PERMISSIVE = re.compile(
    r"0BSD|\b(?:Apache|BSD|BSL-1\.0|CC0|CNRI-Python|HPND|ISC|LLVM-exception|MIT|PSF|Python|Unlicense"
    r"|Zlib|MPL|Mozilla)",  # its files stay under it, what imports them does not
    re.IGNORECASE,
)
KNOWN = {
    "chardet": "LGPL-2.1-or-later: comes with rubric-eval[lm-eval] alone, which loads it as it is",
    "docutils": "its Emacs mode is under the GPL, which nothing imports",
    "rubric-judge": "WordNet's, permissive, for the claim judge's tables: claims/wordnet/LICENSE",
    "krippendorff": "GPL-3.0-or-later: comes with rubric-judge[reliability] alone, never by itself",
    "nvidia-*": "NVIDIA's terms: CUDA's libraries, which torch brings on Linux",
    "cuda-*": "NVIDIA's terms: as nvidia-*",
}
"""Licences that are neither permissive nor a surprise, and why they are there."""


def write_bill(environment: Path, path: Path) -> None:
    """Write a CycloneDX bill of all that is installed, with licences.

    Raises:
        subprocess.CalledProcessError: its tool could not be installed, or failed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["uvx", "--quiet", "--from", BILL_TOOL, "cyclonedx-py", "environment"]
    command += [str(environment), "--output-format", "JSON", "--output-file", str(path)]
    # Without a serial number and a date, the same versions give the same bill.
    subprocess.run([*command, "--output-reproducible"], check=True)


def installed(environment: Path) -> list[Distribution]:
    """Return what an environment holds."""
    return list(
        distributions(
            path=[str(path) for path in environment.glob("lib/*/site-packages")]
        )
    )


def licence_of(distribution: Distribution) -> str:
    """Return its expression, else what its classifiers say, else the first words of its text."""
    facts = cast("Message", distribution.metadata)
    classifiers = [
        one for one in facts.get_all("Classifier", []) if one.startswith("License ::")
    ]
    terms = [one.rpartition(":: ")[2] for one in classifiers]
    named = " AND ".join(
        term for term in terms if term != "DFSG approved"
    )  # names no licence
    text = (facts.get("License") or "").strip()
    return facts.get("License-Expression") or named or text.partition("\n")[0]


def permissive(licence: str) -> bool:
    """Whether one of its alternatives asks nothing of those who import what it covers."""
    return any(
        all(
            PERMISSIVE.search(part) and "GPL" not in part
            for part in re.split(" AND | WITH ", one)
        )
        for one in re.sub("[()]", "", licence).split(" OR ")
    )


def licence_faults(
    found: Iterable[Distribution], known: Mapping[str, str] = KNOWN
) -> list[str]:
    """Say which distributions have a licence that nobody expects, or name none."""
    return [
        f"{one.name} {one.version}: licence {licence_of(one) or 'not named'!r}; read it, and do"
        " without the package or put it in KNOWN of tools/materials.py with the reason"
        for one in found
        if not permissive(licence_of(one))
        if not any(fnmatch(one.name.lower(), pattern) for pattern in known)
    ]


def audit(environment: Path, ours: Iterable[str]) -> list[str]:
    """Say which installed versions have known vulnerabilities, or could not be looked up."""
    (packages,) = environment.glob("lib/*/site-packages")
    command = [
        "uvx",
        "--quiet",
        AUDIT_TOOL,
        "--path",
        str(packages),
        "--format",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        return [f"pip-audit ended with {done.returncode}: {done.stderr.strip()[-500:]}"]
    found = json.loads(done.stdout)["dependencies"]
    unseen = [
        one["name"] for one in found if "skip_reason" in one and one["name"] not in ours
    ]
    faults = [
        f"not found in the index's list, so not audited: {', '.join(unseen)}"
    ] * bool(unseen)
    return faults + [
        f"{one['name']} {one['version']}: {hole['id']}, mended in"
        f" {', '.join(hole['fix_versions']) or 'no version'}"
        for one in found
        for hole in one.get("vulns", [])
    ]
