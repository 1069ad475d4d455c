// What stores are asked for before a batch is planned, and the memory of it. Knows objects of stores; not what the
// bytes are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/fetch/announced_reads.h"

namespace damacy {

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
