"""A KDC on 127.0.0.1, by Apache Kerby out of jars of Maven Central; it issues keytabs and tickets.

Its tickets are read by the system's ``libgssapi_krb5``, which is all of Kerberos that has to be installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from benchmarks.maven_jar import MavenJar
from hudi_bridge.common.kerberos import LIBRARY_MISSING
from tests.integration.hdfs_cluster import LOGGING
from tests.integration.java_program import JavaProgram, running_java
from tests.integration.server_process import LOOPBACK

SERVER = Path(__file__).parent / "LoopbackKdc.java"
REALM = "EXAMPLE.TEST"
HOST = "localhost"
"""The host of the principals of services. Nothing asks DNS for it."""
VALID_SECONDS = 3600
_KERBY = "2.0.3"
JARS = (
    *LOGGING,
    *(
        MavenJar(group="org.apache.kerby", artifact=artifact, version=_KERBY, sha256=sha256)
        for artifact, sha256 in (
            ("kerb-simplekdc", "5d6e018222ea62b502d6443f2cfcf46e763804d4beee1648819c61bd7fc69a48"),
            ("kerb-client", "7bdd35366f17b5f213920cc065e27dd51a5d600cfed7d481d15e1f900fec2165"),
            ("kerb-server", "4864f595851380fc0bb6295c228c7f71ef9b64cab73a8777d5426855da6dbc93"),
            ("kerb-admin", "75d8f752bd11269bf0c81f7353f088dedb1807a4bf49673b7c954bc4966bce8d"),
            ("kerb-common", "99eeaaa54c3c60d8559e9ef683b64c007d8e060997ed150a33d4b80d58781205"),
            ("kerb-core", "89247dda5c0e61e8c658ed36109ca6ec662ebae9fa2c40d937466035d023419b"),
            ("kerb-crypto", "9e368bdc1e8a22e87c775e42d0a15599bdd9e16954f55a964f42ff1d9f94adb2"),
            ("kerb-identity", "1674b85cc3c3f3a353064b7f38624dcea0f4b27fa57019592bf724832cd8e9a4"),
            ("kerb-util", "59da956d1c65f5ddfe43606ccfcccd1a4508936fb726d01b2f3753b292b97b34"),
            ("kerby-asn1", "3f1532d2bfa0dd6fec171744a07990c0046e0f2f0f65ca21780b408a3827dbd2"),
            ("kerby-pkix", "aec2d810b0ad3ff939bd4c70ebfce96539642c20f52cb3fbe4852dc827fec2c9"),
            ("kerby-config", "5137cab8fd70ce322f92a6ab7678f63d2660dab2c14d339dabae9f8e14067d06"),
            ("kerby-util", "65afc7a01a6d43b7db9e0a6768a750607fd318656da10a7f654414a5ccf5dc8a"),
            ("kerby-xdr", "fce44a52fd2f5577f7bd82461429798af1b0ba92bf30739cb450a9c040833a89"),
            ("token-provider", "acdb18a364884296b8da9e9a192cc0fb460eaccadf3c0db1f2ef9b01d229472d"),
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kdc:
    """A KDC that runs; ``folder`` has its keytabs and tickets."""

    program: JavaProgram
    folder: Path

    @property
    def settings(self) -> Path:
        """The file that ``KRB5_CONFIG`` names."""
        return self.folder / "krb5.conf"

    @property
    def jvm_option(self) -> str:
        """The option with which a JVM asks this KDC."""
        return f"-Djava.security.krb5.conf={self.settings}"

    def keytab(self, name: str, *principals: str) -> Path:
        """A new keytab of new principals."""
        path = self.folder / f"{name}.keytab"
        self.program.command(f"keytab {path} {' '.join(principals)}")
        return path

    def ticket(self, name: str, keytab: Path, principal: str, seconds: int = VALID_SECONDS) -> str:
        """The name of a new ticket cache, as kinit writes it; it expires after some seconds, or has expired."""
        path = self.folder / f"{name}.cache"
        self.program.command(f"ticket {path} {keytab} {principal} {seconds}")
        return f"FILE:{path}"


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """A KDC whose files are in a folder.

    Raises:
        AssertionError: the system's library of Kerberos is not installed.
    """
    assert find_library("gssapi_krb5"), LIBRARY_MISSING
    with running_java(SERVER, [str(folder), REALM], JARS, folder / "kdc.log", "-Xmx128m") as program:
        kdc = Kdc(program=program, folder=folder)
        write_client_settings(kdc.settings, int(program.ready[0]))
        yield kdc


def write_client_settings(path: Path, port: int) -> None:
    """Write the settings of the clients of a KDC on a port."""
    path.write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_canonicalize_hostname = false\n"
        f"rdns = false\nudp_preference_limit = 1\n[realms]\n{REALM} = {{\n  kdc = {LOOPBACK}:{port}\n}}\n"
    )
