"""From a response to its final answer, and whether that is the right one.

reading       what of a response is read: no thought, and nothing behind a question of its own
statements    where a response states an answer
stated        the letter that GPQA asks for
expressions   a number, as GSM8K asks for it, or a mathematical expression, as MATH does
equivalence   whether two expressions are the same, by how they are written or by math-verify

The rules are the same for every model. A change of any of them changes `EXTRACTION`, so that
scores by different rules are never compared.
"""
