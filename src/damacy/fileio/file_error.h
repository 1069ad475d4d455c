// The exception of file I/O: an Error with the file, the range, the bytes done and the engine. Knows the text of every
// such error; not Python's classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/core/error.h"

namespace damacy {

enum class FileErrorKind { io, open, mode, short_read, closed, cufile, cuda };

class FileError : public Error {
 public:
  FileErrorKind file_kind = FileErrorKind::io;
  std::string path;
  std::string backend;  // pread io_uring direct staging cufile cuda; empty: none yet
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;
  std::optional<std::uint64_t> transferred;
  std::optional<std::uint64_t> range_index;  // in a gather request
  int cufile_code = 0;
  int cuda_code = 0;

  static FileError failed(std::string_view call, int number, const std::string& path, std::uint64_t offset,
                          std::uint64_t length, std::uint64_t transferred, std::string_view backend);
  static FileError open_failed(int number, const std::string& path);
  static FileError wrong_mode(bool reading, const std::string& path);
  static FileError short_read(const std::string& path, std::uint64_t offset, std::uint64_t wanted, std::uint64_t got);
  static FileError of_library(std::string message);  // cuFile's
  static FileError closed(const std::string& path);

 private:
  FileError(Status status, FileErrorKind kind, std::string message);
};

[[nodiscard]] std::string words_of_errno(int number);

}  // namespace damacy
