// One object of a remote store as a file of bytes: its size, and reads of ranges to host and device memory, which need
// no thread while they wait. Knows objects and operations; not arrays. Part of the public interface by damacy/remote.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/fileio/operation.h"
#include "damacy/remote/remote_read.h"
#include "damacy/store/store.h"
#include "damacy/store/store_options.h"
#include "damacy/store/store_use.h"

namespace damacy {

// Thread-safe.
class RemoteFile : public std::enable_shared_from_this<RemoteFile> {
 public:
  // `uri`: http(s)://…, which may have a query; s3://BUCKET/KEY; gs://BUCKET/KEY; or one of a mounted store. Without
  // `bytes` one small request finds the size; with them the first read does, and fails as "changed" if the object has
  // another one.
  // Without `options` those that are mounted for the uri apply. Throws Error: NotFound if there is no such object.
  static std::shared_ptr<RemoteFile> open(std::string_view uri, std::optional<std::uint64_t> bytes = std::nullopt,
                                          const std::optional<StoreOptions>& options = std::nullopt,
                                          const StoreUse& use = {});

  RemoteFile(std::shared_ptr<Store> store, std::string key, std::string name, std::optional<std::uint64_t> bytes);
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;
  ~RemoteFile();

  const std::string& name() const noexcept { return name_; }  // without a query
  std::uint64_t bytes() const noexcept { return *bytes_; }
  void close() noexcept;  // reads that began go on
  bool closed() const;

  // Begins a read, and gives it to the workers of file I/O. It ends at the end of the file; Operation::count() says
  // where. Throws FileError(closed).
  std::shared_ptr<Operation> begin_read(RemoteRead read);

  // The object, opened once. Throws Error.
  std::shared_ptr<Object> object();

 private:
  const std::shared_ptr<Store> store_;
  const std::string key_, name_;
  std::optional<std::uint64_t> bytes_;
  struct State;
  const std::unique_ptr<State> state_;  // under its own mutex
};

}  // namespace damacy
