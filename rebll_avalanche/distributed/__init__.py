"""One run on many processes: what ranks of a ``torch.distributed`` job say to one another.

Every function does nothing of the kind in a single process, where results keep their bits.
"""
