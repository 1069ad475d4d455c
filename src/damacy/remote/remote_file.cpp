#include "damacy/remote/remote_file.h"

#include <algorithm>
#include <utility>

#include "damacy/cache/disk/environment_tier.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/io_pool.h"
#include "damacy/store/object_uri.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

// Waiting parts need no processor; several operations wait at once.
constexpr std::uint64_t kWorkers = 4;

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(without_secrets(uri));
}

ObjectPlace find(std::string_view uri, const std::optional<StoreOptions>& options, const StoreUse& use) {
  const std::string scheme = scheme_of_uri(uri);
  if (scheme.empty() || scheme == "file")
    refuse(uri, "a remote file has a uri such as https://HOST/PATH; open a path as a CuFile");
  return object_of_uri(uri, options, use);
}

}  // namespace

struct RemoteFile::State {
  Mutex mutex;
  bool closed DAMACY_GUARDED_BY(mutex) = false;
  std::shared_ptr<Object> object DAMACY_GUARDED_BY(mutex);
};

std::shared_ptr<RemoteFile> RemoteFile::open(std::string_view uri, std::optional<std::uint64_t> bytes,
                                             const std::optional<StoreOptions>& options, const StoreUse& use) {
  ObjectPlace found = find(uri, options, use);
  // The tier's keys are uris without queries, which may choose the object.
  if (uri.find('?') == uri.npos) found.store = with_environment_tier(std::move(found.store));
  auto file = std::make_shared<RemoteFile>(make_watched_store(std::move(found.store)), std::move(found.key),
                                           without_secrets(uri), bytes);
  if (!bytes) file->bytes_ = file->object()->stamp().size;
  return file;
}

RemoteFile::RemoteFile(std::shared_ptr<Store> store, std::string key, std::string name,
                       std::optional<std::uint64_t> bytes)
    : store_(std::move(store)),
      key_(std::move(key)),
      name_(std::move(name)),
      bytes_(bytes),
      state_(std::make_unique<State>()) {}

RemoteFile::~RemoteFile() = default;

void RemoteFile::close() noexcept {
  std::shared_ptr<Object> dropped;
  const Lock lock(state_->mutex);
  state_->closed = true;
  dropped.swap(state_->object);
}

bool RemoteFile::closed() const {
  const Lock lock(state_->mutex);
  return state_->closed;
}

std::shared_ptr<Object> RemoteFile::object() {
  {
    const Lock lock(state_->mutex);
    if (state_->object) return state_->object;
  }
  std::shared_ptr<Object> opened = store_->open(key_);
  if (!opened)
    throw Error(Status::notfound, "there is no such object", "no-object").at_key(key_).at_store(store_->name());
  if (const std::uint64_t size = opened->stamp().size; bytes_ && *bytes_ != size)
    throw Error(Status::io, formatted("nbytes is {}, but the object has {} bytes", *bytes_, size), "changed")
        .at_key(key_)
        .at_store(store_->name());
  const Lock lock(state_->mutex);
  if (!state_->object) state_->object = std::move(opened);
  return state_->object;
}

std::shared_ptr<Operation> RemoteFile::begin_read(RemoteRead read) {
  for (const RemoteRange& range : read.ranges) {
    std::uint64_t size = 0;
    for (const FileMemory& memory : range.memory) size += memory.size;
    if (range.offset > File::kMaxOffset || size > File::kMaxOffset - range.offset)
      throw Error(Status::inval, formatted("file_offset + size is above 2^63 - 1: {} + {}", range.offset, size),
                  "overflow");
  }
  std::shared_ptr<Object> object;
  {
    const Lock lock(state_->mutex);
    if (state_->closed) throw FileError::closed(name_);
    object = state_->object;
  }
  // The file lives as long as its reads.
  RemoteSource source{name_, *bytes_, [file = shared_from_this()] { return file->object(); }, std::move(object)};
  auto operation = std::make_shared<Operation>(make_remote_read(std::move(source), std::move(read)));
  operation->helpers = kWorkers;
  if (!operation->has_parts()) return operation;
  operation->when_ended = [](Operation& ended) { IoPool::process().forget(ended); };
  IoPool::process().submit(operation);
  return operation;
}

}  // namespace damacy
