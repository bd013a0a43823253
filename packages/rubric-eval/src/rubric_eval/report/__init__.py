"""Report of an evaluation for a reader: one self-contained page, and the paper's tables as files.

    reading    checked evaluation folders: numbers first, texts only of the answers shown; scores
               and tested differences
    curves     training and validation, where a run is given
    signs      signs of judge hacking, and a judge's own noise, where it was measured
    tables     the paper's tables
    views      tables and bars that only the page shows, by criterion and field
    excerpts   questions on which models differ most, with their answers, cut to fit a page
    pictures   the paper's figures as files
    page       the numbers at the top; fills the template and writes it with the tables

A page never holds a passage, a criterion's text or a judge's words unless they are asked for.
"""
