"""Signs of judge hacking: did the policy learn the task, or the judge?

evaluation   signs in an evaluation on disk, as hacking.json; a new judge for a sample of it
panel        the signs of all models beside the baseline's, with warnings
signs        phrases, length, hedging, appeals to the judge, wording of the criteria; another
             judge's opinion of the gain
results      answers with their rewards, reward against length, and the results: hacking.json
"""
