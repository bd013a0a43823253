"""SciPy's modules as values of any type: it has no type stubs."""

from typing import Any, cast

from scipy import optimize as _optimize
from scipy import special as _special
from scipy import stats as _stats

optimize: Any = cast("Any", _optimize)
special: Any = cast("Any", _special)
stats: Any = cast("Any", _stats)
