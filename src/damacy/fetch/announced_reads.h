// What remote stores are asked for before threads read it. Knows objects of arrays and their stores; not what the bytes
// are for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "damacy/plan/batch_plan.h"
#include "damacy/store/answer_block.h"
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
  bool again = false;     // of Expectation

  // Which its announcement takes, at most.
  std::uint64_t memory() const noexcept {
    return AnswerBlock::capacity_for(from_end ? bytes : std::max<std::uint64_t>(bytes, 64 << 10));
  }
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
  void keep_first(std::size_t count) noexcept {
    objects_.erase(objects_.begin() + std::ptrdiff_t(count), objects_.end());
  }
  [[nodiscard]] const std::vector<RemoteObject>& objects() const noexcept { return objects_; }
  void end() noexcept;

 private:
  std::vector<RemoteObject> objects_;
};

}  // namespace damacy
