"""A client and a server of aioquic that know each other."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAME = "ccplane.test"


@dataclass(frozen=True)
class Ends:
    """Configurations of both.

    Attributes:
        client: The client's, which trusts nobody but the server.
        server: The server's.
    """

    client: QuicConfiguration
    server: QuicConfiguration


def ends(*, client: str = "reno", server: str = "reno") -> Ends:
    """Configurations with these congestion controls, and a certificate made for them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Ends(
        QuicConfiguration(
            is_client=True,
            server_name=NAME,
            cadata=certificate.public_bytes(serialization.Encoding.PEM),
            congestion_control_algorithm=client,
            max_data=1 << 40,
            max_stream_data=1 << 40,
        ),
        QuicConfiguration(
            is_client=False,
            certificate=certificate,
            private_key=key,
            congestion_control_algorithm=server,
            max_data=1 << 40,
            max_stream_data=1 << 40,
        ),
    )
