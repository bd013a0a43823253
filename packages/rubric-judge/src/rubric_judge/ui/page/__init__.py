"""HTML pages of all packages: one frame, one look, one security policy.

rendering    a page of a package's own template, and data that is inert in it
visible      texts of models as they may be shown
charts       curves, stacks, bars and histograms, and the samples that they lead to
drawing      the same as SVG
links        addresses of samples
top_figures  the numbers at the top of a page
tables       tables with intervals, for pages, Markdown and LaTeX
pictures     figures as PNG, SVG and PDF files, by matplotlib, which extras bring

Beside the code lie the frame, the macros that draw all of this, and the style sheet.
"""
