"""Serving models over TensorFlow Serving's interfaces: `penstock serve` (docs/serving.md).

A request passes through these modules, in order:

    http1, rest, json_tensors     REST: bytes to requests, JSON to tensors
    rpc                           gRPC: PredictionService, ModelService, health
    inference                     a request becomes a Call: a servable, feeds, fetches, and how to write the answer
    batching                      calls of one model become one step
    servable, formats             a loaded version: signatures and a session

Beside that path: `repository` (versions, labels, loading, unloading) over `versions` (which ones should be loaded), `warmup`,
`metrics`, `request_log`, `access` (TLS, tokens), `config` (options and configuration files) and `server` (start, drain, stop).
`saved_models` implements `penstock saved-model`.
"""
