"""Facts of a document: each with a question, a claim, a sentence of the reference answer, a check."""
