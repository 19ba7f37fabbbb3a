"""One run on many processes: communication between the ranks of a ``torch.distributed`` job.

In a single process, nothing is communicated and results are unchanged.
"""
