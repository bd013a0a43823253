"""From technical documents to tasks with rubrics."""

from rubric_core.lazy import attach
from rubric_synth import collect

__version__ = "0.1.0"

# The first import of a folder binds its name, here; what is left then is the function of that name.
del collect

__getattr__, __all__ = attach(__name__, __file__)
