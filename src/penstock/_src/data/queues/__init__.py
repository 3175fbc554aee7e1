"""The state of queues, barriers, accumulators and staging areas, independent of ops.

`attempts` implements waiting for all of them; every other module is one kind of state. The ops over them are in
`ops.state.queue`, `barrier`, `accumulator` and `staging`.
"""
