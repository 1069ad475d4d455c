// The words.
#include "damacy/fileio/file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "damacy/core/formatted.h"

namespace damacy {

std::string words_of_errno(int number) {
  return std::generic_category().message(number);
}

FileError::FileError(Status status, FileErrorKind kind, std::string message)
    : Error(status, std::move(message)), file_kind(kind) {}

FileError FileError::failed(std::string_view call, int number, const std::string& path, std::uint64_t offset,
                            std::uint64_t length, std::uint64_t transferred, std::string_view backend) {
  FileError error(
      Status::io, FileErrorKind::io,
      formatted("POSIX error on {}: {}: {}: bytes {}-{}", call, words_of_errno(number), path, offset, offset + length));
  error.with_errno(number);
  error.path = path;
  error.offset = offset;
  error.length = length;
  error.transferred = transferred;
  error.backend = backend;
  return error;
}

FileError FileError::open_failed(int number, const std::string& path) {
  FileError error(Status::io, FileErrorKind::open,
                  formatted("Unable to open file: {}: {}", words_of_errno(number), path));
  error.with_errno(number);
  error.path = path;
  return error;
}

FileError FileError::wrong_mode(bool reading, const std::string& path) {
  FileError error(Status::io, FileErrorKind::mode,
                  formatted("Operation not permitted: unsupported file open flags: {} is open for {} only", path,
                            reading ? "writing" : "reading"));
  error.with_errno(EBADF);
  error.path = path;
  return error;
}

FileError FileError::short_read(const std::string& path, std::uint64_t offset, std::uint64_t wanted,
                                std::uint64_t got) {
  FileError error(Status::io, FileErrorKind::short_read,
                  formatted("EOF: wanted {} bytes at {}, got {}: {}", wanted, offset, got, path));
  error.path = path;
  error.offset = offset;
  error.length = wanted;
  error.transferred = got;
  return error;
}

FileError FileError::of_library(std::string message) {
  return FileError(Status::io, FileErrorKind::cufile, std::move(message));
}

FileError FileError::closed(const std::string& path) {
  FileError error(Status::shutdown, FileErrorKind::closed, formatted("I/O operation on closed file: {}", path));
  error.in_stage("closed");
  error.path = path;
  return error;
}

}  // namespace damacy
