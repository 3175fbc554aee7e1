"""Clusters: servers in other processes, and sessions whose steps run on one or several of them.

`cluster.py` describes the tasks, `wire.py` the message format, `security.py` and `tls.py` authenticate connections. `server.py`
listens; `remote.py` is the session of a client, `master.py` its counterpart on the server, `worker.py` runs the parts of steps
at a task. `link.py` and `peers.py` connect tasks and detect lost ones, `exchange.py` is the rendezvous of a step.
"""
