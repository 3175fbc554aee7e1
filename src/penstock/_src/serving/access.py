"""Access to a server: TLS certificates and bearer tokens."""
from __future__ import annotations

import hmac
import ssl
import tempfile
from typing import Any

import grpc

from penstock._src.base import errors


def rpc_credentials(config: Any) -> grpc.ServerCredentials:
    """Credentials of a gRPC server from an SSLConfig, whose fields are PEM texts."""
    if not config.server_key or not config.server_cert:
        raise errors.invalid("The SSL configuration needs server_key and server_cert.")
    authority = config.custom_ca.encode() or None
    return grpc.ssl_server_credentials([(config.server_key.encode(), config.server_cert.encode())], authority,
                                       require_client_auth=config.client_verify)


def http_context(config: Any) -> ssl.SSLContext:
    """The same for HTTP. Python reads keys from files only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:        # readable by this user only
        file.write(config.server_key + "\n" + config.server_cert)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as e:
            raise errors.invalid(f"The SSL configuration cannot be used: {e}") from None
    if config.custom_ca:
        context.load_verify_locations(cadata=config.custom_ca)
    if config.client_verify:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def authorize(tokens: tuple[str, ...], header: str) -> None:
    """Checks the value of an Authorization header; UnauthenticatedError without one of the tokens. Without tokens, every
    request is allowed."""
    if not tokens:
        return
    scheme, _, given = header.partition(" ")
    matches = [hmac.compare_digest(given.strip().encode(), token.encode()) for token in tokens]
    if scheme.lower() != "bearer" or not any(matches):
        raise errors.UnauthenticatedError(None, None, "A valid bearer token is required.")
