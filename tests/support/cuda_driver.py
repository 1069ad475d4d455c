"""CUDA's driver interface by ctypes, as much as a consumer without a library needs: contexts, streams, memory, and
kernels that wait, compare, and go wrong. Knows no array library and nothing of damacy.

Everything concerns the context that is current on the calling thread.
"""

import ctypes
import functools

BLOCKING, NON_BLOCKING = 0, 1  # by the legacy default stream
CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED = 0, 1, 2

# Threads: any number. `delay`: one thread. `differences` adds to *count how many 32-bit words of a and b differ.
_KERNELS = rb"""
.version 7.0
.target sm_75
.address_size 64

.visible .entry delay(.param .u64 ns)
{
  .reg .u64 %until, %now, %ns;
  .reg .pred %early;
  ld.param.u64 %ns, [ns];
  mov.u64 %now, %globaltimer;
  add.u64 %until, %now, %ns;
AGAIN:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %until;
  @%early bra AGAIN;
  ret;
}

.visible .entry differences(.param .u64 a, .param .u64 b, .param .u64 words, .param .u64 count)
{
  .reg .u64 %a, %b, %words, %count, %i, %step, %at, %offset;
  .reg .u32 %t, %n, %c, %g, %x, %y;
  .reg .pred %end, %equal;
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %words, [words];
  ld.param.u64 %count, [count];
  mov.u32 %t, %tid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %c, %ctaid.x;
  mov.u32 %g, %nctaid.x;
  mad.lo.u32 %t, %c, %n, %t;
  mul.lo.u32 %g, %g, %n;
  cvt.u64.u32 %i, %t;
  cvt.u64.u32 %step, %g;
NEXT:
  setp.ge.u64 %end, %i, %words;
  @%end bra DONE;
  shl.b64 %offset, %i, 2;
  add.u64 %at, %a, %offset;
  ld.volatile.global.u32 %x, [%at];
  add.u64 %at, %b, %offset;
  ld.volatile.global.u32 %y, [%at];
  add.u64 %i, %i, %step;
  setp.eq.u32 %equal, %x, %y;
  @%equal bra NEXT;
  red.global.add.u32 [%count], 1;
  bra NEXT;
DONE:
  ret;
}

.visible .entry fault()
{
  .reg .u64 %nowhere;
  .reg .u32 %x;
  mov.u64 %nowhere, 64;
  mov.u32 %x, 1;
  st.global.u32 [%nowhere], %x;
  ret;
}
"""


class DriverError(RuntimeError):
    def __init__(self, call: str, code: int):
        super().__init__(f"{call}: {code}")
        self.code = code


@functools.cache
def _library():
    library = ctypes.CDLL("libcuda.so.1")
    library.cuInit(0)
    return library


def call(name: str, *arguments) -> None:
    code = getattr(_library(), name)(*arguments)
    if code:
        raise DriverError(name, code)


def u64(value: int = 0) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


# --- contexts ---------------------------------------------------------------------------------------------------------


def current_context() -> int:
    context = u64()
    call("cuCtxGetCurrent", ctypes.byref(context))
    return context.value


def set_current(context: int) -> None:
    call("cuCtxSetCurrent", u64(context))


@functools.cache
def primary_context(device: int = 0) -> int:
    """Retained for the rest of the process."""
    context = u64()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context.value


def primary_is_active(device: int = 0) -> bool:
    flags, active = ctypes.c_uint(), ctypes.c_int()
    call("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
    return bool(active.value)


def new_context(device: int = 0) -> int:
    """A context that is not the primary one; current afterwards."""
    context = u64()
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    return context.value


def device_count() -> int:
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def synchronize() -> None:
    call("cuCtxSynchronize")


# --- streams and memory -----------------------------------------------------------------------------------------------


def new_stream(flags: int = NON_BLOCKING) -> int:
    stream = u64()
    call("cuStreamCreate", ctypes.byref(stream), flags)
    return stream.value


def destroy_stream(stream: int) -> None:
    call("cuStreamDestroy_v2", u64(stream))


def new_event() -> int:
    event = u64()
    call("cuEventCreate", ctypes.byref(event), 2)  # without time stamps
    return event.value


def record(event: int, stream: int) -> None:
    call("cuEventRecord", u64(event), u64(stream))


def begin_capture(stream: int, mode: int = CAPTURE_GLOBAL) -> None:
    call("cuStreamBeginCapture_v2", u64(stream), mode)


def end_capture(stream: int) -> int:
    """The graph; raises if something broke the capture."""
    graph = u64()
    call("cuStreamEndCapture", u64(stream), ctypes.byref(graph))
    return graph.value


def run_graph(graph: int, stream: int) -> None:
    ready = u64()
    call("cuGraphInstantiateWithFlags", ctypes.byref(ready), u64(graph), u64(0))
    call("cuGraphLaunch", ready, u64(stream))
    call("cuStreamSynchronize", u64(stream))


def to_device(data: bytes) -> int:
    """The address of a copy that is never freed."""
    address = u64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 4)))
    call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
    return address.value


def to_host(address: int, size: int) -> bytes:
    data = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", data, u64(address), ctypes.c_size_t(size))
    return data.raw


def fill(address: int, byte: int, size: int) -> None:
    """Queued on the legacy default stream."""
    call("cuMemsetD8_v2", u64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size))


# --- kernels ----------------------------------------------------------------------------------------------------------


class Kernels:
    """Loaded into the current context, once; a graph that is being captured may launch them."""

    def __init__(self) -> None:
        module = u64()
        call("cuModuleLoadData", ctypes.byref(module), _KERNELS + b"\0")
        self._functions = {name: self._function(module, name) for name in ("delay", "differences", "fault")}

    @staticmethod
    def _function(module, name: str):
        function = u64()
        call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def delay(self, stream: int, ms: float) -> None:
        self._launch("delay", stream, 1, 1, int(ms * 1e6))

    def differences(self, stream: int, a: int, b: int, size: int, count: int) -> None:
        """`size` in bytes, a multiple of 4."""
        self._launch("differences", stream, 64, 256, a, b, size // 4, count)

    def fault(self, stream: int) -> None:
        """Ends the context: every later call in it fails."""
        self._launch("fault", stream, 1, 1)

    def _launch(self, name: str, stream: int, blocks: int, threads: int, *values: int) -> None:
        held = [u64(value) for value in values]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(value) for value in held))
        call(
            "cuLaunchKernel", self._functions[name], blocks, 1, 1, threads, 1, 1, 0, u64(stream), pointers, None
        )  # fmt: skip
