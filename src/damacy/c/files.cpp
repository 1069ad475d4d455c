// Files of the C interface.
#include <exception>
#include <memory>
#include <utility>

#include <fcntl.h>

#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"

using damacy::Direction;
using damacy::Error;
using damacy::Status;
using damacy::detail::needed;
using damacy::detail::status_of;

struct damacy_file {
  std::shared_ptr<damacy::File> file;
};

struct damacy_transfer {
  std::shared_ptr<damacy::Operation> operation;
};

namespace {

std::shared_ptr<damacy::Operation> begin(damacy_file* file, Direction direction, const void* data, size_t size,
                                         uint64_t offset) {
  damacy::FileRequest request;
  request.file = needed(file, "file").file;
  request.direction = direction;
  request.offset = offset;
  if (size > 0) damacy::detail::check_memory(data, "data");
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));  // a write only reads them
  request.memory = {{bytes, size, nullptr}};
  return damacy::begin_request(std::move(request));
}

void take_result(const damacy::Operation& operation, size_t* count) {
  if (const auto error = operation.error()) std::rethrow_exception(error);
  if (operation.cancelled()) throw Error(Status::shutdown, "the transfer was cancelled");
  if (count != nullptr) *count = operation.count();
}

int transfer(damacy_file* file, Direction direction, const void* data, size_t size, uint64_t offset, size_t* count) {
  return status_of([&] {
    const auto operation = begin(file, direction, data, size, offset);
    operation->wait({});
    take_result(*operation, count);
  });
}

int begin_transfer(damacy_file* file, Direction direction, const void* data, size_t size, uint64_t offset,
                   damacy_transfer** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    auto made = std::make_unique<damacy_transfer>();  // first: a transfer that runs needs an owner
    made->operation = begin(file, direction, data, size, offset);
    to = made.release();
  });
}

}  // namespace

int damacy_file_open(const char* path, const char* flags, damacy_file** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    const auto parsed = damacy::OpenFlags::parse(&needed(flags, "flags"));
    to = std::make_unique<damacy_file>(damacy_file{damacy::File::open({&needed(path, "path"), AT_FDCWD}, parsed)})
             .release();
  });
}

void damacy_file_destroy(damacy_file* file) {
  const std::unique_ptr<damacy_file> owner(file);
  if (owner != nullptr) owner->file->close(/*wait=*/true);
}

int damacy_file_read(damacy_file* file, void* data, size_t size, uint64_t offset, size_t* count) {
  return transfer(file, Direction::read, data, size, offset, count);
}

int damacy_file_write(damacy_file* file, const void* data, size_t size, uint64_t offset, size_t* count) {
  return transfer(file, Direction::write, data, size, offset, count);
}

int damacy_file_begin_read(damacy_file* file, void* data, size_t size, uint64_t offset, damacy_transfer** out) {
  return begin_transfer(file, Direction::read, data, size, offset, out);
}

int damacy_file_begin_write(damacy_file* file, const void* data, size_t size, uint64_t offset, damacy_transfer** out) {
  return begin_transfer(file, Direction::write, data, size, offset, out);
}

int damacy_transfer_wait(damacy_transfer* transfer, double timeout_s, size_t* count) {
  return status_of([&] {
    damacy::Operation& operation = *needed(transfer, "transfer").operation;
    if (!operation.wait(damacy::detail::timeout_of(timeout_s)))
      throw Error(Status::again, damacy::formatted("the transfer has not ended after {} s", timeout_s));
    take_result(operation, count);
  });
}

void damacy_transfer_destroy(damacy_transfer* transfer) {
  const std::unique_ptr<damacy_transfer> owner(transfer);
  if (owner == nullptr) return;
  (void)status_of([&] {
    owner->operation->drop_rest(/*as_cancelled=*/true);
    owner->operation->wait({});
  });
}
