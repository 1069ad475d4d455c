"""Certificates of an authority of the test's own, made with the command `openssl`."""

from __future__ import annotations

import pathlib
import shutil
import ssl
import subprocess

import pytest

_CONFIG = """
[ca]
default_ca = own
[own]
dir = .
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
"""


class Authority:
    """`file` is its certificate. `context` makes what a server needs."""

    def __init__(self, folder: pathlib.Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("TLS IS NOT TESTED: there is no command openssl")
        self.folder = folder
        self.file = folder / "authority.pem"
        (folder / "ca.conf").write_text(_CONFIG)
        (folder / "index.txt").write_text("")
        (folder / "serial").write_text("01")
        subject = ["-subj", "/CN=Test Authority", "-days", "30"]
        self._run("req", "-x509", *_KEY, "-keyout", "authority.key", "-out", "authority.pem", *subject)

    def context(self, name: str = "127.0.0.1", *, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """Of a server with a certificate for this name or address."""
        stem = f"{name}-{expired}-{self_signed}"
        kind = "IP" if name.replace(".", "").isdigit() else "DNS"
        names = f"subjectAltName={kind}:{name}"
        key = [*_KEY, "-keyout", f"{stem}.key", "-subj", f"/CN={name}"]
        if self_signed:
            self._run("req", "-x509", *key, "-out", f"{stem}.pem", "-days", "30", "-addext", names)
        else:
            self._run("req", *key, "-out", f"{stem}.csr")
            (self.folder / "names.conf").write_text(names)
            dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"] if expired else ["-days", "30"]
            issued = ["-keyfile", "authority.key", "-in", f"{stem}.csr", "-out", f"{stem}.pem"]
            signer = ["-config", "ca.conf", "-cert", "authority.pem", "-extfile", "names.conf"]
            self._run("ca", "-batch", "-notext", *signer, *issued, *dates)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{stem}.pem", self.folder / f"{stem}.key")
        return context

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=30)


_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
