// Memory that users name in file I/O: what each protocol says of it, and how long it is held. Host or device follows
// from the protocol. With the GIL held throughout.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/fileio/file_memory.h"

namespace damacy::python {

// One buffer, held until this goes.
class HeldBuffer {
 public:
  HeldBuffer() = default;
  // Throws for what is no contiguous memory. `stream`: the user's, None if not named.
  void take(nb::handle object, nb::handle stream);

  std::byte* data() const noexcept { return memory_.data; }
  std::uint64_t size() const noexcept { return memory_.size; }
  bool on_device() const noexcept { return memory_.device != nullptr; }
  bool is_host() const noexcept { return is_host_; }  // a device's memory of no bytes is neither
  bool read_only() const noexcept { return read_only_; }
  const FileMemory& memory() const noexcept { return memory_; }
  std::uint64_t stream() const noexcept { return stream_; }  // that orders device memory

 private:
  bool take_view(nb::handle object);
  void take_with_python(nb::handle object, nb::handle stream);

  BufferView view_;
  bool read_only_ = false;
  bool is_host_ = true;
  std::uint64_t stream_ = 0;
  nb::object owner_;  // what else keeps the memory
  FileMemory memory_;
};

// The buffers of one request, released together: by who gets the result, or by the callback thread. Owned through
// hold_buffers(), because the last owner may be a thread without the GIL.
struct HeldBuffers {
  std::vector<HeldBuffer> all;
  void release() noexcept { const auto gone = std::exchange(all, {}); }  // which may run Python code
};

std::shared_ptr<HeldBuffers> hold_buffers();

// What a DLPack capsule holds, as damacy._fileio.memory wants it: (pointer, bytes, read only, shape, strides or None,
// item size, owner). Consumes the capsule.
nb::tuple dlpack_memory(nb::handle capsule);

// An integer by __index__; None is `otherwise`. OverflowError("negative value ...") below 0.
std::uint64_t natural(nb::handle value, const char* name, std::uint64_t otherwise);

}  // namespace damacy::python
