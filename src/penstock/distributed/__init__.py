"""Tasks: servers in other processes, and sessions that run there.

`cluster.py` says who they are, `wire.py` how messages travel, `security.py` who may send them. `server.py` listens;
`remote.py` is the session of a client; `master.py` is what stands behind it on the server.
"""
