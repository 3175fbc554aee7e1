"""`penstock simulate`: simulation of clusters larger than this machine.

A discrete-event simulation with the real control code: placement, partition, the state of steps, accumulators
and tokens of synchronous training, collective algorithms, recovery. Simulated are the clock (`engine.py`), kernels
(`plan.py`: what they cost) and the wire (`wire.py`). docs/simulator.md has the model and its limits.
"""
