"""A few tasks of our own, for a rehearsal on a machine without the run's data."""

from __future__ import annotations

from typing import Final

from rubric_core import Criterion, Grounding, Rubric, Task

_FACTS: Final = (
    ("a heat pump", "moves heat", "electricity", "warmer side", "A pump of heat works by a cycle."),
    ("a fuel cell", "oxidises hydrogen", "a catalyst", "water", "Cells turn fuel into current."),
    ("a wind turbine", "slows the air", "rotor blades", "a generator", "Air pushes on blades."),
    ("a transformer", "changes voltage", "two coils", "a magnetic core", "Coils share a field."),
    ("a solar cell", "absorbs light", "a junction", "an electric field", "Light frees electrons."),
    ("a flywheel", "stores energy", "rotation", "low friction", "A spinning mass keeps energy."),
    ("a battery", "stores charge", "two electrodes", "an electrolyte", "Ions move between poles."),
    ("a gas turbine", "burns fuel", "a compressor", "hot gas", "Compressed air meets a flame."),
    ("a dam", "holds back water", "its height", "a penstock", "Falling water turns wheels."),
    ("a boiler", "makes steam", "a burner", "high pressure", "Water takes up heat and boils."),
    ("a condenser", "cools vapour", "a cold surface", "a liquid", "Vapour gives its heat away."),
    ("a capacitor", "keeps charges apart", "two plates", "a dielectric", "Plates face each other."),
)


def made_tasks() -> tuple[Task, ...]:
    """Tasks whose rubrics both a program and a language model can score, one document each."""
    return tuple(_task(*fact) for fact in _FACTS)


def _task(thing: str, action: str, means: str, outcome: str, passage: str) -> Task:
    return Task(
        question=f"How does {thing} work? Name what it does, what it needs, and what comes of it.",
        grounding=Grounding(text=f"{passage} Key facts: {action}; {means}; {outcome}."),
        rubric=Rubric(
            criteria=(
                Criterion(
                    id="action",
                    weight=3,
                    description="Says what happens",
                    required_elements=(action,),
                ),
                Criterion(
                    id="means",
                    weight=2,
                    description="Names what is needed",
                    expected_keywords=(means,),
                ),
                Criterion(
                    id="outcome",
                    weight=1,
                    description="Names the outcome",
                    expected_keywords=(outcome,),
                ),
            )
        ),
        reference_answer=f"It {action} by means of {means}, which leads to {outcome}.",
    )
