"""The synthesiser that needs no model: it selects and arranges sentences of the document.

It is the default that lets anyone run and test the whole pipeline. Its questions ask for
explanations and its rubrics look for the document's own terms; it does not understand the text.
"""
