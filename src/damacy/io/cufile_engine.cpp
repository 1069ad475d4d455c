// Device requests through cuFile: a handle a file, transfers straight to and from device memory.
#include <cerrno>
#include <functional>
#include <span>

#include "damacy/core/fork.h"
#include "damacy/core/text.h"
#include "damacy/io/cufile_api.h"
#include "damacy/io/detail/slices.h"
#include "damacy/io/engine_choice.h"
#include "damacy/io/io_settings.h"

namespace damacy {
namespace {

// One registered descriptor. Belongs to a File, which lets go of it before it closes the descriptor.
class CuFileHandle final : public File::Attachment {
 public:
  explicit CuFileHandle(cufile::Handle handle) noexcept : handle_(handle) {}
  ~CuFileHandle() override {
    if (epoch_ == fork_epoch()) cufile::process_library().calls.cuFileHandleDeregister(handle_);
  }
  CuFileHandle(const CuFileHandle&) = delete;
  CuFileHandle& operator=(const CuFileHandle&) = delete;
  cufile::Handle get() const noexcept { return handle_; }

 private:
  const cufile::Handle handle_;
  const std::uint64_t epoch_ = fork_epoch();
};

}  // namespace

namespace {

std::string why_not(CompatMode mode) {
  if (mode == CompatMode::on) return "compatibility mode is ON";
  if (mode == CompatMode::automatic) {
    if (cufile::compat_preference().compat) return cufile::compat_preference().why;
    // Without its kernel driver cuFile would bounce through host memory itself, and we do that faster.
    const auto& library = cufile::process_library();
    struct Properties {
      unsigned nvfs_major = 0;
      unsigned rest[64] = {};
    } properties;
    if (library.calls.cuFileDriverGetProperties == nullptr ||
        library.calls.cuFileDriverGetProperties(&properties).err != 0 || properties.nvfs_major == 0)
      return "cuFile would bounce through host memory";
    return {};
  }
  return cufile::process_library().why;
}

// Calls `call` here and now, with the device's context current, after all that was enqueued for it.
void in_context_of(Device& device, const std::function<void()>& call) {
  const auto stream = device.make_stream();
  Work work;
  work.launch = [&](std::uint64_t) {
    call();
    return 0;
  };
  work.on_host = call;
  stream->enqueue(work);
  stream->record().wait();
}

// Registers a whole allocation, or takes that back.
void change_registration(const FileMemory& memory, std::string_view name,
                         const std::function<cufile::Status(std::span<std::byte>)>& call) {
  if (memory.device == nullptr || memory.size == 0 || !why_not(io_settings().compat_mode).empty()) return;
  const std::string place = text("device memory at address ", reinterpret_cast<std::uint64_t>(memory.data));
  if (const std::string& why = cufile::open_driver(); !why.empty()) throw cufile::library_error(why, {5001, 0}, place);
  Device& device = *memory.device->device;
  const std::span<std::byte> all = device.allocation_of({memory.data, static_cast<std::size_t>(memory.size)});
  cufile::Status status{0, 0};
  in_context_of(device, [&] { status = call(all); });
  if (status.err != 0) throw cufile::library_error(name, status, place);
}

}  // namespace

std::string why_no_cufile(const File& file) {
  return why_not(file.compat_mode());
}

void register_with_cufile(const FileMemory& memory) {
  change_registration(memory, "cuFileBufRegister", [](std::span<std::byte> all) {
    return cufile::process_library().calls.cuFileBufRegister(all.data(), all.size(), 0);
  });
}

void deregister_from_cufile(const FileMemory& memory) {
  change_registration(memory, "cuFileBufDeregister", [](std::span<std::byte> all) {
    return cufile::process_library().calls.cuFileBufDeregister(all.data());
  });
}

void register_with_cufile(File& file) {
  if (file.attachment() != nullptr) return;
  const auto& library = cufile::process_library();
  if (!library.loaded) throw cufile::library_error(library.why, {5007, 0}, file.path());
  if (const std::string& why = cufile::open_driver(); !why.empty())
    throw cufile::library_error(why, {5001, 0}, file.path());
  const int direct = file.direct_descriptor();
  cufile::Descriptor descriptor{1, {direct >= 0 ? direct : file.descriptor()}, nullptr};
  cufile::Handle handle = nullptr;
  const cufile::Status status = library.calls.cuFileHandleRegister(&handle, &descriptor);
  if (status.err != 0) throw cufile::library_error("cuFileHandleRegister", status, file.path());
  file.attach(std::make_shared<CuFileHandle>(handle));
}

namespace detail {

RunResult move_by_cufile(File& file, Way way, std::uint64_t offset, const Slice& slice) {
  register_with_cufile(file);
  const auto attached = std::static_pointer_cast<CuFileHandle>(file.attachment());
  const cufile::Calls& calls = cufile::process_library().calls;
  RunResult all{.bytes = 0, .error = 0, .way = IoWay::cufile};
  Moved moved;
  slice.device->before.wait();  // cuFile knows no streams
  while (moved.bytes < slice.size) {
    ssize_t n = 0;
    int number = 0;
    in_context_of(*slice.device->device, [&] {
      const auto at = static_cast<off_t>(offset + moved.bytes);
      const std::size_t left = slice.size - moved.bytes;
      const auto into = static_cast<off_t>(moved.bytes);
      n = way == Way::read ? calls.cuFileRead(attached->get(), slice.data, left, at, into)
                           : calls.cuFileWrite(attached->get(), slice.data, left, at, into);
      number = errno;
    });
    ++moved.calls;
    if (n == 0) break;
    if (n < 0) {
      if (n == -1 && (number == EINTR || number == EAGAIN)) continue;
      count_moved(file, IoWay::cufile, way, moved);
      throw cufile::transfer_error(way == Way::read, n, number, file.path(), offset, slice.size, moved.bytes);
    }
    moved.bytes += static_cast<std::uint64_t>(n);
  }
  count_moved(file, IoWay::cufile, way, moved);
  all.bytes = moved.bytes;
  return all;
}

}  // namespace detail
}  // namespace damacy
