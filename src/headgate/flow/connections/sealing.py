"""Encryption of a connection's tokens; each ciphertext is bound to its row and column."""

import msgspec

from headgate.base.secret import Secret
from headgate.model.connection import Binding, Connection, SealedCredentials, Tokens
from headgate.ports.connections.auth import Vault
from headgate.ports.connections.store import SealedConnection

ACCESS, REFRESH = "access", "refresh"


class OpenCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """A connection with its decrypted credentials."""

    connection: Connection
    access: Secret
    refresh: Secret | None


def seal(
    vault: Vault, tokens: Tokens, connection_id: str, *, user_id: str, source: str
) -> SealedCredentials:
    """Encrypt tokens for the row of that connection."""
    access = _binding(connection_id, user_id, source, ACCESS)
    refresh = _binding(connection_id, user_id, source, REFRESH)
    return SealedCredentials(
        access=vault.seal(tokens.access, access),
        refresh=None if tokens.refresh is None else vault.seal(tokens.refresh, refresh),
        key_id=vault.key_id,
    )


def unseal(vault: Vault, stored: SealedConnection) -> OpenCredentials:
    """Decrypt the credentials of a connection; CredentialsUnreadable if that fails."""
    connection, sealed = stored.connection, stored.sealed
    place = (connection.id, connection.user_id, connection.source)
    refresh = sealed.refresh
    return OpenCredentials(
        connection=connection,
        access=vault.open(sealed.access, _binding(*place, ACCESS)),
        refresh=None if refresh is None else vault.open(refresh, _binding(*place, REFRESH)),
    )


def _binding(connection_id: str, user_id: str, source: str, column: str) -> Binding:
    return Binding(user_id=user_id, source=source, row_id=connection_id, column=column)
