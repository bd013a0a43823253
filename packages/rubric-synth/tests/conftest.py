"""Small documents written for these tests: a package with docstrings, and articles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_synth import CollectConfig, SynthConfig, collect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DOCSTRING = '''
def {name}({p1}, {p2}="auto"):
    """
    {summary}

    Parameters
    ----------
    {p1} : array_like
        {d1}
    {p2} : str, optional
        {d2} Default is 'auto'.

    Returns
    -------
    out : ndarray
        {returned}

    Notes
    -----
    {caveat}
    """
'''

_FUNCTIONS = (
    (
        "smooth_signal", "Smooth a noisy signal with a moving average window.",
        "samples", "Noisy measurements taken at regular intervals.",
        "window", "Number of neighbours that enter each average.",
        "The smoothed measurements, as long as the input.",
        "The window must be odd, otherwise every average is shifted by half a measurement.",
    ),
    (
        "tidal_range", "Compute the tidal range of a coastal station from gauge levels.",
        "levels", "Water levels recorded by the gauge.",
        "datum", "Reference surface for the recorded levels.",
        "The difference between high and low water.",
        "Storm surges are not removed, so that extreme weather raises the range.",
    ),
    (
        "grain_size", "Estimate the mean grain size of a polished metal section.",
        "image", "Micrograph of the etched surface.",
        "magnification", "Scale of the micrograph in microns per pixel.",
        "The mean grain diameter in microns.",
        "Twin boundaries cannot be told from grain boundaries without etching.",
    ),
    (
        "ferment_rate", "Fit the fermentation rate of a yeast culture by least squares.",
        "sugar", "Sugar concentration measured every hour.",
        "strain", "Species of the yeast in the culture.",
        "The fitted rate with its standard error.",
        "The fit assumes that temperature stays constant during the experiment.",
    ),
    (
        "orbit_period", "Calculate the orbital period of a satellite around a planet.",
        "altitude", "Distance of the satellite from the surface.",
        "planet", "Planet whose mass and radius are used.",
        "The period of one revolution in seconds.",
        "Atmospheric drag is ignored, although it matters for very low orbits.",
    ),
    (
        "leaf_area", "Measure the leaf area index of a crop canopy from photographs.",
        "photographs", "Upward looking photographs of the canopy.",
        "threshold", "Brightness that separates sky from leaves.",
        "One dimensionless ratio for each frame.",
        "Photographs must be taken under diffuse light, never in direct sunshine.",
    ),
    (
        "rust_depth", "Predict the corrosion depth of carbon steel in sea water.",
        "exposure", "Years that the steel spends in the sea.",
        "coating", "Protective layer on the steel.",
        "The loss of wall thickness in millimetres.",
        "Galvanic contact with other metals is not considered by the prediction.",
    ),
    (
        "echo_delay", "Find the echo delay of a sonar ping in a recorded trace.",
        "trace", "Pressure recorded by the hydrophone.",
        "ping", "Shape of the transmitted pulse.",
        "The travel time of the loudest reflection in seconds.",
        "Only the strongest echo is found, however many targets reflect the pulse.",
    ),
)  # fmt: skip

_TIDES = """# Tides along a coast

## How tides arise

Tides are the slow rise and fall of the sea surface that the gravity of the moon and the sun
causes. The gravitational pull of the moon raises a bulge of water on the near side of the planet.
Inertia of the rotating planet causes a second bulge on the opposite side of the ocean. A coastal
station passes through both bulges every day and records two high waters. The tidal range is the
difference between high water and low water at a station. Spring tides occur when the pull of the
sun adds to the pull of the moon. Neap tides occur when both bodies stand at right angles to each
other. In a funnel shaped estuary the tidal range can reach 12.5 metres at the head of the bay.
The speed of the tidal wave depends on the depth of the sea. A forecast of the
tidal range must not be used during a storm surge, because the wind raises the water level.
Harbour pilots combine the forecast with gauge readings before a ship enters the harbour.
"""

_DOUGH = """# Bread dough

## Fermentation of the dough

Fermentation of dough is the conversion of sugar into carbon dioxide and alcohol by yeast cells.
Yeast cells take up glucose that enzymes release from damaged starch in the flour. Carbon dioxide
collects in small bubbles that the gluten network holds inside the dough. The gluten network forms
when wheat proteins absorb water and are stretched by kneading. The activity of the yeast increases
when the kitchen is warm. Bakers keep the temperature of the dough near 24.5 °C for an even crumb.
Salt reduces the growth of the yeast and strengthens the gluten network. The flavour of the dough
depends on lactic bacteria that grow in a cold cellar. Dough with
rye flour cannot hold as much gas, because rye proteins form no continuous network. The end
of the rise is determined by the supply of glucose in the dough.
"""

_STEEL = """# Corrosion of steel

## Rust in sea water

Corrosion of steel in sea water is an electrochemical reaction between iron and dissolved oxygen.
Iron atoms leave the metal at anodic sites and enter the water as positive ions. Electrons travel
through the metal to cathodic sites where oxygen is reduced to hydroxide. Chloride ions break down
the passive film that protects stainless steel in fresh water. Pits grow below deposits when the
concentration of oxygen is low. A zinc anode protects the hull because zinc gives up its electrons
more readily than iron. Engineers replace the zinc anode when about 80 % of its mass is consumed.
Paint reduces the speed of corrosion by keeping oxygen away from the metal surface. Cathodic
protection cannot stop the corrosion of dry steel plates, unless spray keeps the surface wet.
The growth of the pits is determined by the chloride in the water of the harbour.
"""


@pytest.fixture
def articles() -> dict[str, str]:
    return {"tides": _TIDES, "dough": _DOUGH, "steel": _STEEL}


@pytest.fixture
def folder(tmp_path: Path, articles: dict[str, str]) -> Path:
    root = tmp_path / "articles"
    root.mkdir()
    for name, text in articles.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable package `tinylab` with one function per docstring, in two modules."""
    root = tmp_path / "site" / "tinylab"
    (root / "field").mkdir(parents=True)
    half = len(_FUNCTIONS) // 2
    for path, functions in (
        (root / "__init__.py", _FUNCTIONS[:half]),
        (root / "field" / "__init__.py", _FUNCTIONS[half:]),
    ):
        path.write_text(
            "".join(_DOCSTRING.format(**_named(f)) for f in functions), "utf-8"
        )
    monkeypatch.syspath_prepend(str(root.parent))
    yield "tinylab"
    for name in [name for name in sys.modules if name.partition(".")[0] == "tinylab"]:
        del sys.modules[name]


@pytest.fixture
def settings() -> SynthConfig:
    """The defaults without near-duplicate search, which a handful of documents would confuse."""
    return SynthConfig(collect=CollectConfig(near_duplicate_cosine=1.0))


@pytest.fixture
def collected(
    tmp_path: Path, folder: Path, package: str, settings: SynthConfig
) -> Callable[[], Path]:
    """Collect the articles and the package into a folder."""

    def make() -> Path:
        out = tmp_path / "collected"
        collect([folder, f"python:{package}"], out, config=settings.collect)
        return out

    return make


def _named(function: tuple[str, ...]) -> dict[str, str]:
    keys = ("name", "summary", "p1", "d1", "p2", "d2", "returned", "caveat")
    return dict(zip(keys, function, strict=True))
