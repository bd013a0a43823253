"""What was found, for a person: one self-contained page, and the paper's tables as files.

    reading    evaluation folders, checked: numbers first, texts only of what is shown; scores
               and tested differences
    curves     training and validation, where a run is given
    signs      of judge hacking, and a judge's own noise, where it was measured
    tables     the paper's tables
    views      what the page alone shows: tables to scan, by criterion and field, rewards by
               criterion
    excerpts   the questions on which models differ most, their answers, cut to what a page holds
    pictures   the paper's figures as files
    page       the numbers at the top; all of it put into the template, and written with the tables

A page never holds a passage, a criterion's text or a judge's words unless they are asked for.
"""
