"""Decompresses deflate streams, up to a limit that guards against decompression bombs."""

import zlib

# Hudi's log blocks hold up to 256 MiB (hoodie.logfile.data.block.max.size), however well they compress.
_ALWAYS_ALLOWED_BYTES = 1 << 28
_MAX_RATIO = 64

GZIP = 16 + zlib.MAX_WBITS
RAW_DEFLATE = -zlib.MAX_WBITS


def max_inflated_bytes(compressed_bytes: int) -> int:
    """How many bytes that many compressed ones may inflate to."""
    return max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * compressed_bytes)


def inflate(compressed: bytes | memoryview, window_bits: int, limit: int) -> bytes:
    """The decompressed data of one stream, of ``limit`` bytes at most.

    Raises:
        ValueError: the bytes are not one whole stream, or hold more than the limit.
    """
    stream = zlib.decompressobj(window_bits)
    try:
        # One byte more than allowed shows that there is more without inflating all of it.
        data = stream.decompress(compressed, limit + 1)
    except zlib.error as error:
        raise ValueError(f"bytes that do not inflate ({error})") from error
    if len(data) > limit:
        raise ValueError(f"a stream of more than {limit} inflated bytes")
    if not stream.eof:
        raise ValueError("a stream without its end")
    return data
