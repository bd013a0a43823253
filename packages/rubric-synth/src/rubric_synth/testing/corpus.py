"""Documents by number: articles on processes of engineering, each different, each the same always.

They are made of sentence frames and words; they read like articles and say nothing true.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from rubric_synth.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS: Final = {
    "process": (
        "annealing calcination chlorination coagulation condensation convection corrosion "
        "crystallisation dehydration desalination diffusion distillation electrolysis erosion "
        "evaporation extraction extrusion fermentation filtration flotation fluidisation forging "
        "gasification granulation hydrolysis infiltration ionisation leaching lubrication "
        "nitrification oxidation percolation photolysis pyrolysis quenching reduction reforming "
        "sedimentation sintering sorption stratification sublimation tempering transpiration "
        "ventilation vitrification weathering welding"
    ),
    "material": (
        "alumina basalt bentonite bitumen brass bronze carbide cellulose cement chromite clay "
        "cobalt copper dolomite epoxy feldspar ferrite gallium gneiss graphite gypsum hematite "
        "kaolin lignite limestone lithium magnetite manganese marble molybdenum nickel nylon "
        "olivine peat pewter polymer porcelain pyrite quartz resin rubber rutile sandstone "
        "serpentine shale silica slag slate steel sulphide tantalum titanium tungsten vanadium "
        "zeolite zirconia"
    ),
    "device": (
        "absorber accumulator agitator aerator autoclave burner calorimeter cathode centrifuge "
        "chimney clarifier collector compressor condenser conveyor coupling crucible cyclone "
        "damper digester diffuser economiser electrode evaporator exchanger expander furnace "
        "gasket generator hopper impeller injector kiln manifold membrane mixer nozzle pump "
        "radiator reactor recuperator regenerator rotor scrubber separator settler sieve siphon "
        "stirrer thermostat turbine valve ventilator"
    ),
    "property": (
        "absorptivity abrasion acidity adhesion alkalinity buoyancy cohesion compressibility "
        "concentration conductivity creep density ductility elasticity emissivity enthalpy "
        "fatigue flammability hardness humidity impedance luminosity moisture permeability "
        "plasticity porosity pressure reactivity reflectance resistivity rigidity roughness "
        "salinity solubility stiffness strength temperature tension tortuosity toughness "
        "transmittance turbidity velocity viscosity volatility wettability"
    ),
    "agent": (
        "acetate ammonia argon bacteria bicarbonate brine bromide carbonate catalyst chelate "
        "chloride citrate colloid detergent electrolyte enzyme ethanol fluoride flux glycol "
        "helium humus hydrazine hydroxide hypochlorite inhibitor iodide lactate methane mulch "
        "nitrate oxalate oxygen ozone peroxide phosphate plasma potassium silicate solvent "
        "steam sulphate surfactant tannin tracer urea vapour yeast"
    ),
    "place": (
        "aquifer basin bay blast boiler canal canyon cavern coast colliery delta dockyard "
        "estuary farm fjord foundry glacier greenhouse harbour island laboratory lagoon marsh "
        "meadow mill mine moor observatory orchard pipeline plant plateau quarry refinery "
        "reservoir savanna shipyard smelter steppe tannery terminal tunnel vineyard wharf"
    ),
    "quality": (
        "coarse constant cyclic delayed dense dilute faint fine gradual lateral local marginal "
        "minute moderate narrow partial periodic persistent prolonged rapid residual seasonal "
        "severe shallow slight steady steep sudden vertical"
    ),
    "verb": (
        "accelerates alters amplifies attenuates balances conceals controls damps delays dictates "
        "disturbs dominates exceeds favours governs hinders impedes initiates lowers masks "
        "moderates offsets outweighs promotes prolongs raises regulates restrains reverses "
        "shifts stabilises suppresses sustains triggers weakens"
    ),
    "unit": "bar days grams hours kelvin kilograms kilowatts litres metres microns minutes volts",
}  # fmt: skip
_VOCABULARY: Final = {kind: tuple(words.split()) for kind, words in _WORDS.items()}
_PROSE: Final = """
The {property} of the {material} {verb} the {agent} as soon as the {device} reaches a {quality}
{process}.
Engineers at the {place} trace the {quality} {property} of the {device} to {agent} that the
{material} releases.
Without the {device}, {agent} enters the {material} and {process} begins before the {property}
has settled.
A {quality} supply of {agent} {verb} the {process} because the {material} keeps its {property}
for longer.
Operators measured {number} {unit} at the {device} while the {material} of the {place} was
cooling.
The {place} lost {number} {unit} of {agent} during {quality} {process} behind the {device}.
A {quality} {property} cannot be reached with {material} alone, unless {agent} passes the
{device} first.
The {device} must not run with {agent}, because its {material} loses {property} under {quality}
load.
Where {material} meets {agent}, the {property} of the boundary {verb} further {process} along
the {device}.
Most of the {agent} that leaves the {device} returns to the {place} through {quality} {process}
of {material}.
Grains of {material} carry {agent} into the {device}, where {process} turns it into a {quality}
deposit.
The {property} of fresh {material} falls under {process}, and the {device} compensates it with
{quality} flow.
In the {place} the {agent} arrives late, so that {process} in the {device} shows a {quality}
{property}.
Heat from the {device} {verb} the {property} of {agent} long before the {material} itself
becomes warm.
A second {device} next to the {place} removes {agent} and gives the {material} a {quality}
{property}.
The balance between {agent} and {material} decides whether {process} or {quality} {property}
limits the {device}.
Samples of {material} from the {place} contain {agent} in pores whose {property} {verb} the
{process}.
Both {property} and {process} respond to {agent}, but only the {device} tells them apart in
{quality} conditions.
The lining of the {device} consists of {material}, whose {quality} {property} keeps {agent} away
from the {place}.
When the {agent} is spent, {process} slows and the {material} in the {device} shows its
{quality} {property}.
Records of the {place} show that {quality} {process} follows each change of {agent} in the
{device}.
A model of the {device} treats {material} as a {quality} medium in which {agent} spreads by
{process}.
The influence of {agent} on {property} is stronger in {material} than in any part of the
{quality} {device}.
Repeated {process} leaves the {material} with a {quality} {property}, which {agent} restores
only in part.
Whoever designs a {device} for the {place} has to choose between {property} of {material} and a
{quality} loss of {agent}.
Deposits of {agent} on the {device} double its {property} within {number} {unit} if nobody
removes them.
The {agent} that a {quality} {process} sets free is held back by {material} until the {device}
is opened.
Two causes of {quality} {property} are known: {process} inside the {material}, and {agent} that
the {device} brings in.
After the {process} the {place} keeps {agent} in its {material}, and the {property} recovers by
{quality} steps.
Sensors beside the {device} report {property}, from which the {process} of {material} with
{agent} is inferred.
"""
_FRAMES: Final = tuple(" ".join(f"{frame}.".split()) for frame in _PROSE.split(".")[:-1])
_HEADINGS: Final = ("Principle", "Conditions", "Measurement", "Operation")
_SENTENCES: Final = (7, 7, 7, 6)
_OF_A_KIND: Final = 6
"""Words of each kind that an article uses: it comes back to its subjects."""


def generated_documents(n: int, *, seed: int = 0, start: int = 0) -> Iterator[Document]:
    """Yield articles of some 3,000 characters.

    Args:
        n: how many.
        seed: another one gives other articles.
        start: number of the first. Article i is the same in every call with the same seed.

    Yields:
        Articles with a title, sections, figures and caveats; no two near each other.
    """
    for number in range(start, start + n):
        yield _document(number, seed)


def _document(number: int, seed: int) -> Document:
    generator = random.Random(f"{seed} {number}")
    theme = {kind: generator.sample(words, _OF_A_KIND) for kind, words in _VOCABULARY.items()}
    process, material, place = (theme[kind][0] for kind in ("process", "material", "place"))
    title = f"{process.capitalize()} of {material} in {place} {number}"
    frames = generator.sample(_FRAMES, sum(_SENTENCES))
    parts = [f"# {title}"]
    for heading, length in zip(_HEADINGS, _SENTENCES, strict=True):
        sentences = [_sentence(frames.pop(), theme, generator) for _ in range(length)]
        parts += [f"## {heading} of {process}", " ".join(sentences)]
    return Document(title=title, text="\n\n".join(parts), source=f"generated/{seed}/{number:08}.md")


def _sentence(frame: str, theme: dict[str, list[str]], generator: random.Random) -> str:
    words = {kind: words[int(generator.random() * _OF_A_KIND)] for kind, words in theme.items()}
    number = 5 + int(generator.random() * 9_000) / 10
    return frame.format_map({**words, "number": number})
