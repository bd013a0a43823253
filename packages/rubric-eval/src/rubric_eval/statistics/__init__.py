"""Statistics of paired evaluations; what SciPy has, SciPy does.

intervals    means and paired differences of rewards; shares of right answers: Wilson, McNemar,
             Tango; the interval of one model's score
scores       a model's score, with what explains it
bootstrap    draws by document, of several means at once too, BCa limits and p-value
sign_flip    permutation of whole clusters, counted exactly
paired       the tests: mean, p-value, limits and detectable difference that agree; several tests
             at once, and the power of McNemar's
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
