"""Frames that writers rarely produce, and frames that were damaged.

libzstd is called directly for what numcodecs does not offer. Damaged frames lie in one array, a chunk each, so that a
batch with `on_error="fill"` shows which were refused; what is not refused must be what numcodecs decodes.
"""

import ctypes
import ctypes.util
import zlib

import numcodecs
import numpy as np
import pytest
from support import writers
from support.layout import Compressor, Layout
from support.streaming import Stored, pipeline, row_bits

import damacy

ELEMENTS = 3000
PLAIN = ((np.arange(ELEMENTS) // 4 * 7) % 251 + 1).astype(np.uint8)

_zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
_zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
_zstd.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
_zstd.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
_zstd.ZSTD_compressStream2.restype = ctypes.c_size_t
WINDOW_LOG, CHECKSUM, CONTENT_SIZE = 101, 201, 200


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t)]


def zstd(raw: bytes, pieces: int = 1, **parameters) -> bytes:
    """One frame. Several pieces are flushed one by one, so the header has no content size."""
    context = _zstd.ZSTD_createCCtx()
    for name, value in parameters.items():
        _zstd.ZSTD_CCtx_setParameter(context, globals()[name], value)
    out = ctypes.create_string_buffer(2 * len(raw) + 65536)
    target = _Buffer(ctypes.addressof(out), len(out), 0)
    step = -(-len(raw) // pieces) or 1
    for start in range(0, max(len(raw), 1), step):
        part = raw[start : start + step]
        source = _Buffer(ctypes.cast(ctypes.c_char_p(part), ctypes.c_void_p).value, len(part), 0)
        end = 2 if start + step >= len(raw) else 1  # end, flush
        assert (
            _zstd.ZSTD_compressStream2(ctypes.c_void_p(context), ctypes.byref(target), ctypes.byref(source), end) == 0
        )
    _zstd.ZSTD_freeCCtx(context)
    return out.raw[: target.position]


def array_of(tmp_path, compressor, frames, plain=PLAIN) -> Stored:
    """An array with one chunk per frame; each must decode to `plain`."""
    bits = np.tile(plain, len(frames))
    layout = Layout(shape=bits.shape, chunks=plain.shape, dtype="uint8", compressor=compressor, fill_bits=0)
    stored = Stored(tmp_path / "a", layout, bits)
    (tmp_path / "a" / "c").mkdir(parents=True)
    (tmp_path / "a" / "zarr.json").write_text(writers.json.dumps(writers.document_v3(layout)))
    for k, frame in enumerate(frames):
        stored.object(k).write_bytes(frame)
    return stored


def read_all(stored, count, size=ELEMENTS):
    """(row or None) of every chunk."""
    with pipeline(batch_size=count, dtype="u8", on_error="fill") as p:
        p.push([stored.sample((k * size, (k + 1) * size)) for k in range(count)])
        with p.pop() as batch:
            rows = row_bits(batch, "uint8")
            return [row if good else None for row, good in zip(rows, batch.valid)]


def why(stored, k=0, size=ELEMENTS) -> damacy.DamacyError:
    with pipeline(batch_size=1) as p:
        p.push([stored.sample((k * size, (k + 1) * size))])
        with pytest.raises(damacy.DecodeError) as caught:
            p.pop()
        return caught.value


RAW = PLAIN.tobytes()
SKIP = b"\x5a\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"skip me!!"

GOOD_ZSTD = {
    "no content size": zstd(RAW, pieces=3),
    "content size": zstd(RAW),
    "checksum": zstd(RAW, CHECKSUM=1),
    "window larger than the content": zstd(RAW, pieces=2, WINDOW_LOG=27),
    "two frames": zstd(RAW[:1000]) + zstd(RAW[1000:]),
    "an empty frame between": zstd(RAW[:1000]) + zstd(b"") + zstd(RAW[1000:], pieces=4, CHECKSUM=1),
    "skippable frames": SKIP + zstd(RAW[:7]) + SKIP + SKIP + zstd(RAW[7:]) + SKIP,
    "64 frames": b"".join(zstd(RAW[47 * k : 47 * (k + 1)] if k < 63 else RAW[47 * 63 :]) for k in range(64)),
}
BAD_ZSTD = {
    "65 frames": (b"".join(zstd(RAW[k : k + 1]) for k in range(64)) + zstd(RAW[64:]), ("limit",)),
    "one byte too few": (zstd(RAW[:-1]), ("size",)),
    "one byte too many": (zstd(RAW + b"x"), ("size",)),
    "a wrong content size": (zstd(RAW[:1000]), ("size",)),
    "garbage behind": (zstd(RAW) + b"\0", ("frame", "size")),
    "a cut skippable frame": (zstd(RAW) + SKIP[:-1], ("frame",)),
    "a wrong checksum": (zstd(RAW, CHECKSUM=1)[:-1] + b"\xaa", ("checksum",)),
    "an empty object": (b"", ("frame", "size", "short-read")),
    "only a skippable frame": (SKIP, ("size", "frame")),
    "an older magic": (b"\x27\xb5\x2f\xfd" + zstd(RAW)[4:], ("frame",)),
    "a dictionary": (b"\x28\xb5\x2f\xfd\x01\x58\x07\x01\x00\x00", ("dictionary",)),
    "a reserved bit": (b"\x28\xb5\x2f\xfd\x08\x58\x01\x00\x00", ("frame",)),
}


@pytest.mark.parametrize("name", GOOD_ZSTD)
def test_zstd_frames_of_every_shape(tmp_path, name):
    stored = array_of(tmp_path, Compressor("zstd"), [GOOD_ZSTD[name]])
    (row,) = read_all(stored, 1)
    np.testing.assert_array_equal(row, PLAIN)


@pytest.mark.parametrize("name", BAD_ZSTD)
def test_zstd_frames_that_are_refused(tmp_path, name):
    frame, reasons = BAD_ZSTD[name]
    stored = array_of(tmp_path, Compressor("zstd"), [frame])
    with pipeline(batch_size=1) as p:
        p.push([stored.sample((0, ELEMENTS))])
        with pytest.raises(damacy.DamacyError) as caught:
            p.pop()
    assert caught.value.reason in reasons, caught.value


def gzip(raw: bytes, **options) -> bytes:
    import gzip as module
    import io

    out = io.BytesIO()
    with module.GzipFile(fileobj=out, mode="wb", **options) as file:
        file.write(raw)
    return out.getvalue()


def gzip_with_all_fields(raw: bytes) -> bytes:
    """Extra, name, comment and header checksum, by hand."""
    header = b"\x1f\x8b\x08\x1e" + bytes(4) + b"\0\xff" + b"\x03\0abc" + b"name\0" + b"comment\0"
    header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    deflate = zlib.compressobj(wbits=-15)
    body = deflate.compress(raw) + deflate.flush()
    return header + body + zlib.crc32(raw).to_bytes(4, "little") + len(raw).to_bytes(4, "little")


GOOD_GZIP = {
    "several members": gzip(RAW[:100]) + gzip(b"") + gzip(RAW[100:]),
    "a file name": gzip(RAW, filename="file.bin", mtime=5),
    "all optional fields": gzip_with_all_fields(RAW),
    "zero bytes behind": gzip(RAW) + bytes(100),
    "stored blocks": gzip(RAW, compresslevel=0),
}
BAD_GZIP = {
    "a wrong checksum": gzip(RAW)[:-8] + b"\0\0\0\0" + gzip(RAW)[-4:],
    "a wrong length": gzip(RAW)[:-4] + b"\1\0\0\0",
    "garbage behind": gzip(RAW) + b"\0\0x",
    "cut": gzip(RAW)[:-9],
    "too few": gzip(RAW[:-1]),
    "too many": gzip(RAW) + gzip(b"x"),
    "zlib instead": zlib.compress(RAW),
    "a reserved flag": b"\x1f\x8b\x08\x80" + gzip(RAW)[4:],
}
GOOD_ZLIB = {"plain": zlib.compress(RAW), "level 0": zlib.compress(RAW, 0)}
BAD_ZLIB = {
    "a wrong checksum": zlib.compress(RAW)[:-1] + b"\xee",
    "garbage behind": zlib.compress(RAW) + b"\0",
    "two streams": zlib.compress(RAW[:7]) + zlib.compress(RAW[7:]),
    "gzip instead": gzip(RAW),
    "too few": zlib.compress(RAW[:-1]),
    "a preset dictionary": b"\x78\xbb" + zlib.compress(RAW)[2:],
}


@pytest.mark.parametrize("id_,good,bad", [("gzip", GOOD_GZIP, BAD_GZIP), ("zlib", GOOD_ZLIB, BAD_ZLIB)])
def test_deflate_streams_of_every_shape(tmp_path, id_, good, bad):
    frames = [*good.values(), *bad.values()]
    stored = array_of(tmp_path, Compressor(id_), frames)
    for name, row in zip((*good, *bad), read_all(stored, len(frames))):
        if name in good:
            assert row is not None and (row == PLAIN).all(), name
        else:
            assert row is None, name
    for k in range(len(good), len(frames)):
        assert why(stored, k).reason in ("frame", "size", "checksum", "dictionary")


def lz4(block: bytes, size: int = ELEMENTS) -> bytes:
    return size.to_bytes(4, "little") + block


LZ4_BLOCK = bytes(numcodecs.get_codec({"id": "lz4"}).encode(RAW))[4:]
BAD_LZ4 = {
    "a wrong size": lz4(LZ4_BLOCK, ELEMENTS - 1),
    "no block": lz4(b""),
    "cut": lz4(LZ4_BLOCK[:-1]),
    "behind": lz4(LZ4_BLOCK + b"\0"),
    "an offset of 0": lz4(b"\x14A\0\0" + b"\x00" * 8),
    "an offset beyond": lz4(b"\x1fA\2\0" + b"\xff" * 11 + b"\x00"),
    "an endless length": lz4(b"\xff" * 60),
    "an LZ4 frame": b"\x04\x22\x4d\x18" + LZ4_BLOCK,
}


def test_lz4_blocks_that_are_refused(tmp_path):
    frames = [lz4(LZ4_BLOCK), *BAD_LZ4.values()]
    stored = array_of(tmp_path, Compressor("lz4"), frames)
    first, *others = read_all(stored, len(frames))
    np.testing.assert_array_equal(first, PLAIN)
    for name, row in zip(BAD_LZ4, others):
        assert row is None, name


# --- damaged frames ---------------------------------------------------------------------------------------------------

CODECS = [
    Compressor("zstd", 3),
    Compressor("lz4"),
    Compressor("gzip", 6),
    Compressor("zlib", 6),
    *(Compressor("blosc", 5, cname=c, shuffle=s, typesize=2) for c in ("zstd", "lz4", "zlib") for s in (0, 1, 2)),
    Compressor("blosc", 5, cname="lz4", shuffle=1, typesize=4, blocksize=512),
]


def mutated(rng, frame: bytes) -> bytes:
    changed = bytearray(frame)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(changed))) if rng.random() < 0.5 else int(rng.integers(min(48, len(changed))))
        kind = rng.integers(4)
        if kind == 0:
            changed[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            changed[place] = int(rng.choice([0, 1, 127, 128, 255]))
        elif kind == 2:
            del changed[place : place + int(rng.integers(1, 9))]
        else:
            changed[place:place] = rng.bytes(int(rng.integers(1, 9)))
        if not changed:
            changed = bytearray(frame)
    return bytes(changed)


def reference(compressor, frame: bytes) -> bytes | None:
    """The frame as numcodecs decodes it, or None."""
    try:
        return bytes(numcodecs.get_codec({"id": compressor.id}).decode(frame))
    except Exception:
        return None


@pytest.mark.parametrize("compressor", CODECS, ids=str)
def test_a_damaged_frame_is_refused_or_decoded_as_by_the_reference(tmp_path, compressor):
    rng = np.random.default_rng(99)
    noisy = np.where(rng.random(ELEMENTS) < 0.3, rng.integers(0, 256, ELEMENTS), PLAIN).astype(np.uint8)
    frame = writers.compress(compressor, noisy.tobytes(), 2)
    frames = [frame] + [mutated(rng, frame) for _ in range(300)]
    stored = array_of(tmp_path, compressor, frames, noisy)
    rows = read_all(stored, len(frames))
    np.testing.assert_array_equal(rows[0], noisy)
    refused = 0
    for k, row in enumerate(rows):
        if row is None:
            refused += 1
            continue
        if compressor.id == "blosc" and not _safe_for_numcodecs(frames[k]):
            continue
        wanted = reference(compressor, frames[k])
        assert wanted is not None and row.tobytes() == wanted, f"frame {k}: {frames[k][:32].hex()}"
    assert refused > 0


def _safe_for_numcodecs(frame: bytes) -> bool:
    """numcodecs trusts the sizes in a blosc header, so it gets only frames with right sizes."""
    return len(frame) >= 16 and int.from_bytes(frame[12:16], "little") == len(frame)
