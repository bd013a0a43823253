"""Report of an evaluation for a reader: one self-contained page, and the paper's tables as files.

    curves     training and validation, where a run is given
    tables     the paper's tables
    views      tables and bars that only the page shows, by criterion and field
    pictures   the paper's figures as files
    page       the numbers at the top; fills the template and writes it with the tables

A page never holds a passage, a criterion's text or a judge's words unless they are asked for.
"""
