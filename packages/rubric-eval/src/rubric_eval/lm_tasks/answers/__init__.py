"""Extraction of the final answer of a response, and its comparison with the target.

searched_part  the part of a response that is read: no thought, nothing after a question of its own
statements     the places where a response states an answer
stated         the letter that GPQA asks for
expressions    a number, as GSM8K asks for it, or a mathematical expression, as MATH does
equivalence    whether two expressions are the same, by their spelling or by math-verify

The rules are the same for every model. A change of any of them changes `EXTRACTION_VERSION`, so
that scores by different rules are never compared.
"""
