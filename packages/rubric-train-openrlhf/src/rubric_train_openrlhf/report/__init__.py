"""The report of a run: one self-contained HTML page made from the run folder's files alone.

    reading      rows of the folder, checked, with the file and line of a broken one
    excerpt      the rollouts that the page holds, and what it leaves out
    contrast     the optional comparison.json: stages, controls, paired differences; what the judge
                 knew, where whoever makes the page asks for it
    charts       what is drawn: series by name and role
    top_figures  the numbers at the top
    page         the parts put into the template
    several      runs side by side
    criteria     what became of each criterion, for the page and for the command

The rollouts are two data blocks on the page, as they are two files in the folder: the policy view
reads the first alone, and only the judge view joins the second.
"""
