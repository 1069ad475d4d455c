// User buffers of file I/O: found by the buffer protocol or a device array protocol, and kept alive during a request.
// The GIL must be held.
#pragma once

#include <cstdint>
#include <utility>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/one_or_more.h"
#include "dlpack_exchange.h"

namespace damacy::python {

// Keeps one buffer alive.
class HeldBuffer {
 public:
  HeldBuffer() = default;
  // Throws if the object is not contiguous memory. `stream`: the user's stream or None.
  void take(nb::handle object, nb::handle stream);

  std::byte* data() const noexcept { return memory_.data; }
  std::uint64_t size() const noexcept { return memory_.size; }
  bool on_device() const noexcept { return memory_.device != nullptr; }
  bool is_host() const noexcept { return is_host_; }  // empty device memory is neither host nor on_device()
  bool read_only() const noexcept { return read_only_; }
  const FileMemory& memory() const noexcept { return memory_; }
  std::uint64_t stream() const noexcept { return stream_; }  // the stream that uses the device memory

 private:
  bool take_view(nb::handle object);
  // `interface`: of the object, null: it has none, or could not be asked for it.
  void take_with_python(nb::handle object, nb::handle stream, nb::handle interface);
  bool take_usual(nb::handle object, nb::handle stream, nb::handle interface);
  bool take_exported(nb::handle object, nb::handle stream);
  void hold(ArrayBytes found, nb::handle object);
  void place(std::uint64_t pointer, std::uint64_t size, bool on_device);

  BufferView view_;
  bool read_only_ = false;
  bool is_host_ = true;
  std::uint64_t stream_ = 0;
  nb::object owner_;  // another object that keeps the memory alive
  FileMemory memory_;
};

// The buffers of one request. They are released together, by the thread that gets the result or by the callback thread.
// The last owner may be a thread without the GIL: the destructor takes it.
struct HeldBuffers {
  OneOrMore<HeldBuffer> all;
  HeldBuffers() = default;
  HeldBuffers(const HeldBuffers&) = delete;
  HeldBuffers& operator=(const HeldBuffers&) = delete;
  ~HeldBuffers();
  void release() noexcept { const auto gone = std::exchange(all, {}); }  // may run Python code
};

// Consumes a DLPack capsule and returns the tuple that damacy._fileio.memory expects: (pointer, bytes, read only,
// shape, strides or None, item size, owner).
nb::tuple dlpack_memory(nb::handle capsule);

// An integer by __index__; `otherwise` if the object is None. OverflowError("negative value ...") below 0.
std::uint64_t natural(nb::handle value, const char* name, std::uint64_t otherwise);

}  // namespace damacy::python
