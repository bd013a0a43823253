"""The dataset folder: what is in it, and how it is written.

manifest   names of the files; counts, costs, origins and hashes
splits     one split as JSON lines and as Parquet; a folder read back
writing    outcomes into all of them, together, with the card that `datasets.load_dataset` reads
"""
