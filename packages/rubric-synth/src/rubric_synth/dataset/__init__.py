"""The dataset folder: what is in it, and how it is written.

layout       names of the files
report       what a run tells of what it wrote
provenance   where the tasks come from
manifest     counts, costs, origins and hashes
asked        the calls that a model answered
splits       one split as JSON lines and as Parquet
card         README.md, which `datasets.load_dataset` reads
reading      a folder read back
writing      outcomes into all of them, together
"""
