"""Logins by Kerberos with the system's ``libgssapi_krb5``, and messages for those that fail.

The library is called by ctypes: no package of the index has it for Linux but as C to be compiled.
"""

import ctypes
import errno
import re
import sys
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Final

LIBRARY_MISSING = (
    "Kerberos needs the system's libgssapi_krb5: install libgssapi-krb5-2 (Debian, Ubuntu), krb5-libs (Red Hat) or krb5"
    " (Alpine, Homebrew)"
)
_GENERAL = re.compile(
    r"(?:Unspecified GSS failure\. +Minor code may provide more information"
    r"|No credentials were supplied, or the credentials were unavailable or inaccessible): *"
)
_OF_TICKETS = re.compile(r"(?i)expired|credential")

_KERBEROS: Final = bytes.fromhex("2a864886f712010202")
"""The mechanism 1.2.840.113554.1.2.2."""
_SERVICE_AT_HOST: Final = bytes.fromhex("2a864886f71201020104")
_PRINCIPAL: Final = bytes.fromhex("2a864886f71201020201")
_MUTUAL, _REPLAY, _SEQUENCE, _PRIVACY, _INTEGRITY = 2, 4, 8, 16, 32
_CONTINUES = 1
_ERRORS = 0xFFFF0000
_GENERAL_CODE, _MECHANISM_CODE = 1, 2


def login_failure(reason: str, keytab: str | None = None) -> str:
    """One line for what GSSAPI says, which names ``kinit`` if a ticket is missing or has expired."""
    text = _GENERAL.sub("", reason).strip()
    if keytab is not None:
        return f"no Kerberos login by the keytab {keytab}: {text if Path(keytab).is_file() else 'no such file'}"
    remedy = "; run kinit, or renew the ticket that KRB5CCNAME names" if _OF_TICKETS.search(text) else ""
    return f"no Kerberos login: {text}{remedy}"


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("elements", ctypes.c_char_p))


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


@cache
def _library() -> ctypes.CDLL:
    """The library.

    Raises:
        OSError: it is not installed.
    """
    name = "libgssapi_krb5.so.2" if sys.platform == "linux" else find_library("gssapi_krb5")
    try:
        # Without a name, this would be the program itself.
        return ctypes.CDLL(name or "libgssapi_krb5")
    except OSError:
        raise OSError(errno.ENOTSUP, LIBRARY_MISSING) from None


class GssContext:
    """A login at a service, which then protects messages.

    ``service`` is a principal, such as ``hive/host@REALM``, or ``hive@host``: a service at a host of the own realm.
    The ticket is that of the machine: ``KRB5CCNAME``, or the default cache.
    """

    def __init__(self, service: str) -> None:
        self._library = _library()
        self._context = ctypes.c_void_p()
        self._name = ctypes.c_void_p()
        self.is_complete = False
        kind = _PRINCIPAL if "/" in service else _SERVICE_AT_HOST
        self._call("gss_import_name", _input(service.encode()), ctypes.byref(_oid(kind)), ctypes.byref(self._name))

    def close(self) -> None:
        """Frees what the library holds."""
        minor = ctypes.c_uint32()
        self._library.gss_release_name(ctypes.byref(minor), ctypes.byref(self._name))
        self._library.gss_delete_sec_context(ctypes.byref(minor), ctypes.byref(self._context), None)

    def step(self, token: bytes) -> bytes:
        """What is sent to the service after its token, which is empty at first; empty if that is nothing.

        Raises:
            OSError: there is no valid ticket, or the service is not the one that was named.
        """
        output = _Buffer()
        major = self._call(
            "gss_init_sec_context",
            None,
            ctypes.byref(self._context),
            self._name,
            ctypes.byref(_oid(_KERBEROS)),
            ctypes.c_uint32(_MUTUAL | _REPLAY | _SEQUENCE | _PRIVACY | _INTEGRITY),
            ctypes.c_uint32(0),
            None,
            _input(token),
            None,
            ctypes.byref(output),
            None,
            None,
        )
        self.is_complete = not major & _CONTINUES
        return self._taken(output)

    def wrap(self, message: bytes, *, is_private: bool) -> bytes:
        """The message as it is sent: signed, and encrypted if it is private."""
        output = _Buffer()
        self._call(
            "gss_wrap", self._context, int(is_private), ctypes.c_uint32(0), _input(message), None, ctypes.byref(output)
        )
        return self._taken(output)

    def unwrap(self, message: bytes) -> bytes:
        """A message of the service, once it is checked.

        Raises:
            OSError: the message is not what the service has sent.
        """
        output = _Buffer()
        self._call("gss_unwrap", self._context, _input(message), ctypes.byref(output), None, None)
        return self._taken(output)

    def _call(self, function: str, *arguments: object) -> int:
        minor = ctypes.c_uint32()
        call = getattr(self._library, function)
        call.restype = ctypes.c_uint32
        major: int = call(ctypes.byref(minor), *arguments)
        if major & _ERRORS:
            # The second says more, if it says something.
            texts = (self._text(major & _ERRORS, _GENERAL_CODE), self._text(minor.value, _MECHANISM_CODE))
            raise OSError(errno.EACCES, login_failure(": ".join(filter(None, texts))))
        return major

    def _text(self, code: int, kind: int) -> str:
        if not code:
            return ""
        minor, more, output = ctypes.c_uint32(), ctypes.c_uint32(), _Buffer()
        self._library.gss_display_status(
            ctypes.byref(minor),
            ctypes.c_uint32(code),
            ctypes.c_int(kind),
            ctypes.byref(_oid(_KERBEROS)),
            ctypes.byref(more),
            ctypes.byref(output),
        )
        return self._taken(output).decode(errors="replace")

    def _taken(self, buffer: _Buffer) -> bytes:
        """The bytes of a buffer, which the library then frees."""
        content = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        minor = ctypes.c_uint32()
        self._library.gss_release_buffer(ctypes.byref(minor), ctypes.byref(buffer))
        return content


def _input(content: bytes) -> "ctypes._Pointer[_Buffer]":
    """A buffer that lives as long as what is returned."""
    memory = ctypes.create_string_buffer(content, len(content) or 1)
    pointer = ctypes.pointer(_Buffer(len(content), ctypes.addressof(memory)))
    pointer.memory = memory  # type: ignore[attr-defined]
    return pointer
