"""Compressed bytes -> their data, never more than a file of that size can be meant to hold."""

import zlib

# Hudi's log blocks hold up to 256 MiB (hoodie.logfile.data.block.max.size), however well they compress.
_ALWAYS_ALLOWED = 1 << 28
_TIMES_STORED = 64

GZIP = 16 + zlib.MAX_WBITS
RAW_DEFLATE = -zlib.MAX_WBITS


def most_inflated(stored_bytes: int) -> int:
    """The most bytes that so many compressed ones may inflate to."""
    return max(_ALWAYS_ALLOWED, _TIMES_STORED * stored_bytes)


def inflated(stored: bytes | memoryview, window_bits: int, limit: int) -> bytes:
    """The data of one stream, which may take up to ``limit`` bytes.

    Raises:
        ValueError: the bytes are no whole stream, or hold more than the limit.
    """
    stream = zlib.decompressobj(window_bits)
    try:
        # One byte more than allowed shows that there is more, without inflating all of it.
        data = stream.decompress(stored, limit + 1)
    except zlib.error as error:
        raise ValueError(f"bytes that do not inflate ({error})") from error
    if len(data) > limit:
        raise ValueError(f"a stream of more than {limit} inflated bytes")
    if not stream.eof:
        raise ValueError("a stream without its end")
    return data
