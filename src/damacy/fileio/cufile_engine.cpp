// Device requests through cuFile: one handle per file, direct transfers to and from device memory.
#include <cerrno>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/fileio/cufile_api.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/engine_choice.h"
#include "damacy/fileio/io_settings.h"

namespace damacy {
namespace {

constexpr const char* kModeIsOn = "compatibility mode is ON";

// A file's registration with cuFile: the handle, or, under AUTO, the reason why there is none. Owned by a File, which
// releases it before it closes the descriptor.
class Registration final : public File::Attachment {
 public:
  Registration(cufile::Handle handle, std::string why) : handle_(handle), why_not_(std::move(why)) {}
  ~Registration() override {
    if (handle_ != nullptr && epoch_ == fork_epoch()) cufile::process_library().calls.cuFileHandleDeregister(handle_);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  cufile::Handle handle() const noexcept { return handle_; }
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  const cufile::Handle handle_;
  const std::string why_not_;
  const std::uint64_t epoch_ = fork_epoch();
};

std::shared_ptr<const Registration> registration_of(const File& file) {
  return std::static_pointer_cast<const Registration>(file.attachment());
}

// cuFile wants a CUDA context to be there: the caller's, or else the first device's, which stays.
void make_context() {
  static const bool made = [] {
    if (cufile::process_library().loaded && probe_cuda().state == CudaState::usable &&
        bind_current_context() == nullptr)
      static_cast<void>(new auto(bind_primary_context(0)));
    return true;
  }();
  static_cast<void>(made);
}

// Of the process. Empty: cuFile may be used. There is a CUDA context, but for ON.
std::string why_not(CompatMode mode) {
  if (mode == CompatMode::on) return kModeIsOn;
  if (mode == CompatMode::off) return cufile::process_library().why;
  return cufile::compat_preference().compat ? cufile::compat_preference().why : cufile::why_not_direct();
}

void check_driver(const std::string& place) {
  const auto& library = cufile::process_library();
  if (!library.loaded) throw cufile::library_error(library.why, {5007, 0}, place);
  if (const std::string& why = cufile::open_driver(); !why.empty()) throw cufile::library_error(why, {5001, 0}, place);
}

cufile::Handle registered(File& file) {
  check_driver(file.path());
  const int direct = file.direct_descriptor();
  cufile::Descriptor descriptor{1, {direct >= 0 ? direct : file.descriptor()}, nullptr};
  cufile::Handle handle = nullptr;
  const cufile::Status status = cufile::process_library().calls.cuFileHandleRegister(&handle, &descriptor);
  if (status.err != 0) throw cufile::library_error("cuFileHandleRegister", status, file.path());
  return handle;
}

// Settles at the first call whether cuFile has the file. Throws FileError under OFF, which knows no other way.
std::shared_ptr<const Registration> settle(File& file) {
  if (auto known = registration_of(file)) return known;
  cufile::Handle handle = nullptr;
  std::string why;
  try {
    if (file.compat_mode() == CompatMode::automatic) why = why_not(CompatMode::automatic);
    if (why.empty()) handle = registered(file);
  } catch (const FileError& refused) {
    if (file.compat_mode() == CompatMode::off) throw;
    why = refused.message();
  }
  file.attach(std::make_shared<Registration>(handle, std::move(why)));
  return registration_of(file);
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
  const std::string place = formatted("device memory at address {}", reinterpret_cast<std::uint64_t>(memory.data));
  check_driver(place);
  Device& device = *memory.device->device;
  const std::span<std::byte> all = device.allocation_of({memory.data, static_cast<std::size_t>(memory.size)});
  cufile::Status status{0, 0};
  in_context_of(device, [&] { status = call(all); });
  if (status.err != 0) throw cufile::library_error(name, status, place);
}

}  // namespace

std::string why_no_cufile(const File& file) {
  if (file.compat_mode() == CompatMode::on) return kModeIsOn;
  if (const auto known = registration_of(file)) return known->why_not();
  return file.compat_mode() == CompatMode::off ? cufile::process_library().why : cufile::compat_preference().why;
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

void check_cufile(const std::string& path) {
  make_context();
  check_driver(path);
}

void register_with_cufile(File& file) {
  make_context();
  settle(file);
}

namespace detail {

bool goes_by_cufile(File& file) {
  return file.compat_mode() != CompatMode::on && settle(file)->why_not().empty();
}

RunResult move_by_cufile(File& file, Way way, std::uint64_t offset, const Slice& slice) {
  const auto registration = settle(file);
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
      n = way == Way::read ? calls.cuFileRead(registration->handle(), slice.data, left, at, into)
                           : calls.cuFileWrite(registration->handle(), slice.data, left, at, into);
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
std::shared_ptr<File> open_with_engine(const FileOptions& settings, const std::string& path,
                                       const std::function<std::shared_ptr<File>()>& open) {
  const bool needs_cufile = settings.compat_mode.value_or(io_settings().compat_mode) == CompatMode::off;
  if (needs_cufile) check_cufile(path);
  std::shared_ptr<File> file = open();
  if (needs_cufile) register_with_cufile(*file);
  return file;
}

}  // namespace damacy
