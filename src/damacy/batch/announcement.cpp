#include "damacy/batch/announcement.h"

#include <algorithm>
#include <utility>

#include "damacy/core/error.h"

namespace damacy {

bool AnswersAhead::add(const RemoteObject& object) noexcept {
  const Lock lock(mutex_);
  if (const auto known = batches_.find(object); known != batches_.end()) {
    ++known->second;
    return true;
  }
  decltype(batches_) added;
  if (object.memory() > most_ - bytes_ || failure_of([&] { added.emplace(object, 1); })) return false;
  batches_.merge(added);
  bytes_ += object.memory();
  return true;
}

void AnswersAhead::remove(const RemoteObject& object) noexcept {
  const Lock lock(mutex_);
  const auto at = batches_.find(object);
  if (--at->second > 0) return;
  bytes_ -= at->first.memory();
  batches_.erase(at);
}

std::uint64_t AnswersAhead::bytes() const noexcept {
  const Lock lock(mutex_);
  return bytes_;
}

Announcement::Announcement(std::vector<RemoteObject> objects, std::shared_ptr<AnswersAhead> ahead) noexcept
    : ahead_(std::move(ahead)) {
  const auto end = std::ranges::find_if_not(objects, [&](const RemoteObject& object) { return ahead_->add(object); });
  objects.erase(end, objects.end());
  reads_.set(std::move(objects));
}

Announcement::~Announcement() {
  for (const RemoteObject& object : reads_.objects()) ahead_->remove(object);
}

}  // namespace damacy
