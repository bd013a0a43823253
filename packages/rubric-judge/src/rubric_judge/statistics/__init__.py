"""Statistics of judgements and evaluations; what SciPy has, SciPy does.

estimate     a number, its interval, and how many values it is of
clusters     the mean of values that come in clusters, and its variance
shares       Wilson's and exact limits of shares; means of values in [0, 1]
means        means, paired differences and their averages
bootstrap    draws by cluster, of several means at once too; BCa limits and p-value
student      Student's interval of a mean over documents
sign_flip    permutation of whole clusters, counted exactly
mcnemar      McNemar's exact test and Tango's limits, for right and wrong answers
correlation  rank correlations, drawn by document
drift        evidence that a mean has risen since the start, valid at every look
paired       the tests: mean, p-value, limits and detectable difference that agree; several tests
             at once, and the power of McNemar's
untyped      SciPy's modules, for all that call them

All but estimate, clusters and drift need SciPy: the extra `reliability`, or rubric-eval.
"""
