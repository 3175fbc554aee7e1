"""`penstock simulate`: clusters that this machine cannot hold.

A discrete-event simulation in which the control code is the real one: placement, partition, the state of steps, accumulators
and tokens of synchronous training, collective algorithms, recovery. Simulated are the clock (`engine.py`), kernels
(`plan.py`: what they cost) and the wire (`wire.py`). docs/simulator.md has the model and its limits.
"""
