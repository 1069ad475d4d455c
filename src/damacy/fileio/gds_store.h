// Objects of a folder as files: their bytes go straight into memory of the host or of a GPU, and an object is written
// whole or not at all. What stands behind `damacy.zarr.GDSStore`. Knows keys and files; not zarr.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/fileio/cu_file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"

namespace damacy {

// How an object that was written takes its place.
struct CommitOptions {
  bool only_new = false;         // throws FileError with errno EEXIST if there is such an object
  bool replaces_folder = false;  // a folder in its place is removed, with all that is in it
};

// An object that is being written, to a file next to its place that keys() leaves out. Without commit() it is removed.
class NewObject {
 public:
  NewObject(NewObject&&) noexcept = default;
  NewObject& operator=(NewObject&&) = delete;
  ~NewObject() { discard(); }

  const std::shared_ptr<CuFile>& file() const noexcept { return file_; }

  // Closes the file and renames it: readers see the old object or the new one.
  void commit(const CommitOptions& how = {});
  void discard() noexcept;

 private:
  friend class GDSStore;
  NewObject(std::string path, std::string partial, const FileOptions& settings);

  std::string path_, partial_;
  std::shared_ptr<CuFile> file_;  // null: it was committed or discarded
};

// Any thread. A key is a path below the folder, with "/" between its parts. Every call throws Error(inval, "arguments")
// for one that is absolute, empty, has a part "." or "..", or NUL; and FileError for what the file system says.
class GDSStore {
 public:
  // `settings`: of each file. The folder is made by the first write.
  explicit GDSStore(std::string root, const FileOptions& settings = {});
  // Whether such a file is an object that is being written. `name`: with or without its folders.
  static bool is_partial(std::string_view name);

  const std::string& root() const noexcept { return root_; }
  // Bytes of the object; empty if there is no regular file of that key.
  std::optional<std::uint64_t> size(std::string_view key);

  // The object as a file, of which the process keeps some open; empty if there is no regular file of that key. A file
  // that is replaced or changes is opened again by the next call.
  struct Object {
    std::shared_ptr<CuFile> file;  // shared with other callers: it is not to be closed
    std::uint64_t size = 0;
  };
  std::optional<Object> open(std::string_view key);

  // Fills `memory` with the bytes of the object from `offset` on, and waits. Throws Error(notfound, "no-object") if
  // there is no object, and FileError(short_read) if it ends before.
  void read(std::string_view key, const FileMemory& memory, std::uint64_t offset = 0);
  // The same without waiting.
  IOFuture begin_read(std::string_view key, const FileMemory& memory, std::uint64_t offset = 0);
  // Ranges of any keys, one request.
  struct Range {
    std::string key;
    FileMemory memory;
    std::uint64_t offset = 0;
  };
  IOFuture begin_read(std::span<const Range> ranges);
  IOFuture begin_read(std::initializer_list<Range> ranges) {
    return begin_read(std::span(ranges.begin(), ranges.size()));
  }

  // For an object that is written in parts. Makes its folders.
  NewObject create(std::string_view key);
  // Writes the whole object and commits it.
  void write(std::string_view key, const FileMemory& memory, bool only_new = false);
  bool erase(std::string_view key);  // false: there was none
  // Of all objects whose key begins with `prefix`, sorted. Files that are being written are left out.
  std::vector<std::string> keys(std::string_view prefix = {});

 private:
  std::string path_of(std::string_view key) const;
  std::shared_ptr<CuFile> file_of(std::string_view key);  // throws if there is none

  std::string root_;
  FileOptions settings_;
};

}  // namespace damacy
