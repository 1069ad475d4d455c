// Declarations that the bindings of files, futures and requests of damacy.cufile share.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cufile_buffers.h"
#include "cufile_errors.h"
#include "damacy/fileio/cu_file.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"

namespace damacy::python {

// Checks of arguments: ValueError if the size exceeds the buffer; OverflowError if the end is above 2^63 - 1;
// ValueError if a read would write to a read-only buffer.
std::uint64_t size_within(nb::handle size, std::uint64_t available);
void check_end(std::uint64_t offset, std::uint64_t size);
void check_target(const HeldBuffer& buffer, Direction direction);

// Permission for a callback of an operation to use Python objects. Callbacks that run after the interpreter began to
// end are denied, and the Python objects that they hold are leaked.
class PythonAccess {
 public:
  PythonAccess() noexcept : granted_(enter()) {}
  ~PythonAccess();
  PythonAccess(const PythonAccess&) = delete;
  PythonAccess& operator=(const PythonAccess&) = delete;
  explicit operator bool() const noexcept { return granted_; }
  // Denies all later requests, and waits at most `patience` for callbacks with permission. False: some still run.
  static bool end(std::chrono::milliseconds patience);

 private:
  static bool enter() noexcept;
  const bool granted_;
};

// Destroys with the GIL held, on any thread.
struct DropWithGil {
  template <class Owned>
  void operator()(Owned* owned) const {
    const PythonAccess access;
    if (!access) return;
    const GilAcquire gil;
    delete owned;
  }
};

// The base class of IOFuture of damacy.cufile; also the native part of an IOFutureStream.
class IoHandle {
 public:
  // `caller_helps`: a thread that waits without a timeout runs waiting parts.
  IoHandle(std::shared_ptr<Operation> operation, std::shared_ptr<HeldBuffers> held, bool caller_helps = true)
      : operation_(std::move(operation)), held_(std::move(held)), caller_helps_(caller_helps) {
    if (operation_->done()) held_->release();
  }

  // Buffers are released by the thread that sees the end. Of an operation that goes on, the callback thread does it:
  // a wake-up and the GIL, which the operations that are waited for do without.
  ~IoHandle() {
    if (operation_ == nullptr || held_->all.empty() || operation_->is_parents()) return;
    if (operation_->done()) {
      held_->release();
      return;
    }
    operation_->when_done([held = held_] {
      const PythonAccess access;
      if (!access) return;
      const GilAcquire gil;
      held->release();
    });
  }
  IoHandle(const IoHandle&) = delete;
  IoHandle& operator=(const IoHandle&) = delete;

  // A read that has already ended.
  explicit IoHandle(std::uint64_t count) : ended_with_(count) {}

  bool done() const {
    if (operation_ == nullptr || is_lost()) return true;
    if (!operation_->done()) return false;
    held_->release();
    return true;
  }
  bool cancelled() const {
    return operation_ != nullptr && !is_lost() && operation_->parts_ended() && operation_->cancelled();
  }
  bool cancel() {
    if (operation_ == nullptr || is_lost()) return false;
    const GilRelease unlocked;
    return operation_->drop_rest(/*as_cancelled=*/true);
  }

  // Null if there was no error. Throws TimeoutError, and what a signal handler raises.
  nb::object failure(std::optional<double> timeout) {
    if (operation_ == nullptr) return {};
    if (!is_lost()) await(timeout);
    if (is_lost())
      return exception_of(
          Error(Status::shutdown, "an operation of the parent process cannot be used after a fork", "forked")
              .in_stage("forked"));
    held_->release();
    if (operation_->cancelled())
      return nb::module_::import_("concurrent.futures").attr("CancelledError")("the operation was cancelled");
    if (const auto error = operation_->error()) return exception_object(error);
    return {};
  }

  std::uint64_t result(std::optional<double> timeout) {
    if (const nb::object error = failure(timeout); error.is_valid()) throw_object(error);
    return operation_ == nullptr ? ended_with_ : operation_->count();
  }

  nb::object exception(std::optional<double> timeout) {
    const nb::object error = failure(timeout);
    if (!error.is_valid()) return nb::none();
    if (cancelled()) throw_object(error);
    return error;
  }

  std::vector<std::uint64_t> counts() {
    const std::uint64_t count = result(std::nullopt);
    return operation_ == nullptr ? std::vector{count} : operation_->counts();
  }

  // Waits here for the file I/O, and makes the stream wait for the copies.
  std::uint64_t wait_stream(std::uint64_t stream) {
    if (operation_ == nullptr || is_lost()) return result(std::nullopt);
    {
      const GilRelease unlocked;
      operation_->wait_parts(limit_of(std::nullopt), signal_checker());
    }
    if (operation_->cancelled() || operation_->error() != nullptr) return result(std::nullopt);
    const auto devices = devices_of_buffers();
    const GilRelease unlocked;
    for (const Event& event : operation_->copies())
      for (const auto& device : devices) device->make_wait(stream, event);
    return operation_->count();
  }

  void when_done(nb::object call) {
    if (done()) {
      call();
      return;
    }
    const std::shared_ptr<nb::object> shared(new nb::object(std::move(call)), DropWithGil());
    operation_->when_done([shared] {
      const PythonAccess access;
      if (!access) return;
      const GilAcquire gil;
      try {
        (*shared)();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("a callback of an IOFuture");
      }
      shared->reset();
    });
  }

 private:
  // None if the copies have ended: the buffers are then released.
  std::vector<std::shared_ptr<Device>> devices_of_buffers() const {
    std::vector<std::shared_ptr<Device>> devices;
    for (const HeldBuffer& buffer : held_->all)
      if (buffer.on_device() && (devices.empty() || devices.back() != buffer.memory().device->device))
        devices.push_back(buffer.memory().device->device);
    return devices;
  }

  // It belongs to the parent process, and no thread of this process will complete it.
  bool is_lost() const { return operation_->is_parents() && !operation_->parts_ended(); }

  std::optional<std::chrono::nanoseconds> limit_of(std::optional<double> timeout) const {
    constexpr double kMost = 9e9;  // seconds; more is no limit
    if (timeout && std::isnan(*timeout)) raise(PyExc_ValueError, "timeout is not a number");
    if (timeout && *timeout < kMost)
      return std::chrono::nanoseconds(static_cast<std::int64_t>(std::max(*timeout, 0.0) * 1e9));
    if (caller_helps_) return std::nullopt;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(kMost * 1e9));
  }

  void await(std::optional<double> timeout) {
    const auto limit = limit_of(timeout);
    bool in_time = true;
    {
      std::optional<GilRelease> unlocked;
      if (!operation_->done()) unlocked.emplace();
      in_time = operation_->wait(limit, signal_checker());
    }
    if (!in_time) raise(PyExc_TimeoutError, "the operation has not ended yet");
  }

  const std::shared_ptr<Operation> operation_;
  const std::shared_ptr<HeldBuffers> held_;
  const bool caller_helps_ = true;
  const std::uint64_t ended_with_ = 0;
};

// An IOFuture of damacy.cufile.
class PythonFuture : public nb::object {
  NB_OBJECT(PythonFuture, nb::object, "damacy._fileio.future.IOFuture", PyObject_IsTrue)
};

nb::handle future_class();

// One object for a request: the class of Python derives from IoHandle.
template <class... Arguments>
PythonFuture make_future(Arguments&&... arguments) {
  nb::object future = nb::inst_alloc(future_class());
  new (nb::inst_ptr<IoHandle>(future)) IoHandle(std::forward<Arguments>(arguments)...);
  nb::inst_mark_ready(future);
  return nb::steal<PythonFuture>(future.release());
}

// The native part of CuFile. Dropping the Python object is like close(wait=False): running operations keep the File.
class NativeFile {
 public:
  explicit NativeFile(std::shared_ptr<File> file) : file_(std::move(file)) {}
  // A file of a store, which others use too: dropping the Python object does not close it.
  explicit NativeFile(std::shared_ptr<CuFile> of_store) : file_(of_store->file()), of_store_(std::move(of_store)) {}
  ~NativeFile() {
    if (of_store_ == nullptr) file_->close(/*wait=*/false);
  }
  NativeFile(const NativeFile&) = delete;
  NativeFile& operator=(const NativeFile&) = delete;
  File* operator->() const noexcept { return file_.get(); }
  const std::shared_ptr<File>& shared() const noexcept { return file_; }

 private:
  std::shared_ptr<File> file_;
  std::shared_ptr<CuFile> of_store_;
};

void bind_future(nb::module_& m);
void bind_gather(nb::class_<NativeFile>& file, nb::module_& m);
void bind_io_process(nb::module_& m);
void bind_gds_store(nb::module_& m);

nb::dict counters_dict(const IoCounters& counters);
nb::object direct_object(DirectIo value);  // True, False or "auto"

}  // namespace damacy::python
