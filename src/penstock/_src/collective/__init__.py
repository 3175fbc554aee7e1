"""Collectives: several processes, or devices of one, combine what each of them has.

From the inside out: `merge.py` combines two arrays; `algorithms.py` decides which member sends what to which, without any I/O
of its own; `channel.py` moves the messages and counts them; `group.py` is a group of members with its calls, made and found by
the `hub.py` of a task; `tuner.py` chooses an algorithm for AUTO, among them torch.distributed's own (`engines.py`); `codec.py`
is what compression plugs into. The ops on top are in `ops/comm/collective.py`; docs/collectives.md tells the whole.
"""
