// What remote stores are asked for before threads read it. Knows objects of arrays and their stores; not what the bytes
// are for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"

namespace damacy {

// What a plan opens in a remote store: its last `bytes` are needed first, or the first if not `from_end`.
struct RemoteObject {
  std::shared_ptr<Store> store;
  std::string key;
  std::uint64_t bytes = 0;
  bool from_end = false;
  std::size_t reads = 0;  // of those bytes

  // Which its announcement takes, at most.
  std::uint64_t memory() const noexcept { return from_end ? bytes : std::max<std::uint64_t>(bytes, 64 << 10); }
};
inline constexpr std::size_t kExpectedAtOnce = 256;  // objects: a store may not ask for more at a time
// The object of an array's chunk or outermost shard.
[[nodiscard]] RemoteObject remote_object(const Array& array, std::shared_ptr<Store> store, std::string key);
[[nodiscard]] std::vector<RemoteObject> remote_objects(const BatchPlan& plan);
// Reads of the first `announced` were announced before. Throws nothing but Abandoned.
void expect(std::span<const RemoteObject> objects, std::size_t announced = 0);

// Announced reads: stores keep the bytes until these end with this.
class AnnouncedReads {
 public:
  AnnouncedReads() = default;
  ~AnnouncedReads() { end(); }
  AnnouncedReads(const AnnouncedReads&) = delete;
  AnnouncedReads& operator=(const AnnouncedReads&) = delete;
  void set(std::vector<RemoteObject> objects) noexcept { objects_ = std::move(objects); }
  [[nodiscard]] const std::vector<RemoteObject>& objects() const noexcept { return objects_; }
  void end() noexcept;

 private:
  std::vector<RemoteObject> objects_;
};

// Memory of answers that stores were asked for before batches are planned: of an object that several batches want,
// once. Thread-safe.
class AnswersAhead {
 public:
  explicit AnswersAhead(std::uint64_t most) : most_(most) {}
  // False: there is no room.
  [[nodiscard]] bool add(const RemoteObject& object) noexcept;
  void remove(const RemoteObject& object) noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  struct ByKey {
    bool operator()(const RemoteObject& left, const RemoteObject& right) const noexcept {
      return std::tie(left.store, left.key) < std::tie(right.store, right.key);
    }
  };
  const std::uint64_t most_;
  mutable Mutex mutex_;
  std::uint64_t bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::map<RemoteObject, std::size_t, ByKey> batches_ DAMACY_GUARDED_BY(mutex_);  // how many want an object
};

// What stores were asked for before a batch was planned: the first of its objects, as many as there is memory for.
class Announcement {
 public:
  Announcement(std::vector<RemoteObject> objects, std::shared_ptr<AnswersAhead> ahead) noexcept;
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  [[nodiscard]] const std::vector<RemoteObject>& objects() const noexcept { return reads_.objects(); }

 private:
  const std::shared_ptr<AnswersAhead> ahead_;
  AnnouncedReads reads_;
};

}  // namespace damacy
