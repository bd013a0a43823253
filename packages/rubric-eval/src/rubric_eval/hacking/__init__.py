"""Signs of judge hacking: did the policy learn the task, or the judge?

evaluation   all signs of all models, with warnings; for an evaluation on disk, as hacking.json
signs        phrases, length, hedging, appeals to the judge, wording of the criteria; another
             judge's opinion of the gain
results      answers with their rewards, reward against length, and the results: hacking.json
"""
