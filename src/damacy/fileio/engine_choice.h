// The available engines, which of them serve a file, and why others do not. Knows names and reasons; transfers nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"

namespace damacy {

struct UringProbe {
  bool usable = false;
  std::string why;  // not
};

// Set up once, asked for its operations, and closed. The answer stays.
const UringProbe& probe_uring();

// Empty: device requests of this file go through cuFile; else why not. Under AUTO the first of them settles that: until
// then, whether it will be tried. Loads libcufile unless the mode is ON.
std::string why_no_cufile(const File& file);
void check_cufile(const std::string& path);  // throws FileError unless libcufile is there and its driver opens
void register_with_cufile(File& file);       // once; throws FileError
// Opens a file by `open`. With CompatMode::off, throws FileError for a file that cuFile cannot serve: if cuFile itself
// is missing, before the call, which may truncate the file.
[[nodiscard]] std::shared_ptr<File> open_with_engine(const FileOptions& settings, const std::string& path,
                                                     const std::function<std::shared_ptr<File>()>& open);

// The whole allocation that device memory lies in, so that cuFile need not stage transfers to it. Without cuFile, and
// for host memory, these do nothing. Throw FileError.
void register_with_cufile(const FileMemory& memory);
void deregister_from_cufile(const FileMemory& memory);

}  // namespace damacy
