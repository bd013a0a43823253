"""Signs of judge hacking: did the policy learn the task, or the judge?

evaluation   signs in an evaluation on disk, as hacking.json; a new judge for a sample of it
signs        phrases, length, hedging, appeals to the judge, wording of the criteria; another
             judge's opinion of the gain; all of them together, with warnings
results      answers with their rewards, reward against length, and the results: hacking.json
"""
