// A store in memory, for tests and for users whose bytes are already in memory. Replacing an object makes a new
// version; objects that are open keep the old one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::string name = "memory") : name_(std::move(name)) {}

  void put(std::string_view key, std::span<const std::byte> bytes);
  void put(std::string_view key, std::string_view bytes) { put(key, std::as_bytes(std::span(bytes))); }
  void remove(std::string_view key);

  std::string name() const override { return name_; }
  std::shared_ptr<Object> open(std::string_view key) override;
  std::optional<Stamp> stamp(std::string_view key) override;
  std::vector<Entry> list(std::string_view prefix) override;

 private:
  struct Version;
  const std::string name_;
  Mutex mutex_;
  std::uint64_t puts_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<Version>, std::less<>> versions_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
