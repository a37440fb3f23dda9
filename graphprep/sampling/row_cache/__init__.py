"""Which feature rows of other ranks a rank keeps, so that a batch that needs one again does not fetch it again.

`plan.py` says what a policy answers for each batch and feeds it batches ahead of their use. The policies: `belady.py`
keeps the rows that are needed soonest, which is known since draws are hashes; `lru.py` those that were used last;
`fixed.py` those of the highest scores: degrees or counts of a presampled epoch (`scores.py`), or the probability of a
visit (`graphprep.traffic.visits`). `policies.py` makes each by its name.
"""
