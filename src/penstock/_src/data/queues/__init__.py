"""The state behind queues, barriers, accumulators and staging areas, free of ops.

`attempts` has the one way in which all of them wait; every other module is one kind of state. The ops over them are in
`ops.state.queue`, `barrier`, `accumulator` and `staging`.
"""
