// A sorted map of keys. Knows versions and prefixes.
#include "damacy/store/memory_store.h"

#include <cstring>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy {

struct MemoryStore::Version final : Object {
  std::string store;
  std::string key;
  Stamp is;
  std::vector<std::byte> bytes;

  const Stamp& stamp() const noexcept override { return is; }

  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    const std::size_t left = offset < bytes.size() ? bytes.size() - offset : 0;
    if (left < dst.size())
      throw Error(Status::io, formatted("short read: {} of {} bytes", left, dst.size()), "short-read")
          .at_bytes(offset, offset + dst.size())
          .at_key(key)
          .at_store(store);
    if (!dst.empty()) std::memcpy(dst.data(), bytes.data() + offset, dst.size());
  }
};

void MemoryStore::put(std::string_view key, std::span<const std::byte> bytes) {
  check_key(key);
  auto version = std::make_shared<Version>();
  version->store = name_;
  version->key = key;
  version->bytes.assign(bytes.begin(), bytes.end());
  const Lock lock(mutex_);
  ++puts_;
  version->is = {.device = 0, .inode = puts_, .size = bytes.size(), .modified_ns = static_cast<std::int64_t>(puts_)};
  versions_.insert_or_assign(std::string(key), std::move(version));
}

void MemoryStore::remove(std::string_view key) {
  const Lock lock(mutex_);
  if (const auto at = versions_.find(key); at != versions_.end()) versions_.erase(at);
}

std::shared_ptr<Object> MemoryStore::open(std::string_view key) {
  check_key(key);
  const Lock lock(mutex_);
  if (const auto at = versions_.find(key); at != versions_.end()) return at->second;
  const auto below = versions_.lower_bound(formatted("{}/", key));
  if (below != versions_.end() && below->first.starts_with(formatted("{}/", key)))
    throw Error(Status::io, "not a regular file but a directory", "io").at_key(key).at_store(name_);
  return nullptr;
}

std::optional<Stamp> MemoryStore::stamp(std::string_view key) {
  const auto object = open(key);
  if (!object) return std::nullopt;
  return object->stamp();
}

std::vector<Entry> MemoryStore::list(std::string_view prefix) {
  if (!prefix.empty()) check_key(prefix);
  const std::string start = prefix.empty() ? std::string() : formatted("{}/", prefix);
  std::map<std::string, bool> found;
  const Lock lock(mutex_);
  for (auto at = versions_.lower_bound(start); at != versions_.end() && at->first.starts_with(start); ++at) {
    const std::string_view rest = std::string_view(at->first).substr(start.size());
    const std::size_t slash = rest.find('/');
    found[std::string(rest.substr(0, slash))] |= slash != std::string_view::npos;
  }
  std::vector<Entry> entries;
  for (const auto& [name, is_directory] : found) entries.push_back({name, is_directory});
  return entries;
}

}  // namespace damacy
