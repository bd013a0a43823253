"""The dataset folder: its files, and how they are written.

folder     its manifest, one split as JSON lines and as Parquet, and all of it read back
writing    outcomes into all of its files, together, with the card that `load_dataset` reads
"""
