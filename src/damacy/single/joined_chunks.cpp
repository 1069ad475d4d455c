#include "damacy/single/joined_chunks.h"

namespace damacy {

void JoinedChunks::open() {
  for (std::uint32_t object = 0; object < objects_.size(); ++object) {
    const auto failure = failure_of([&] { objects_[object]->open(); });
    if (failure) {
      objects_[object]->fail_all(*failure);
      throw Error(*failure);
    }
    const Wants& wants = objects_[object]->wants();
    const auto first = static_cast<std::uint32_t>(wants_.objects.size());
    wants_.objects.insert(wants_.objects.end(), wants.objects.begin(), wants.objects.end());
    wants_.arrays = wants.arrays;  // that of all
    for (std::uint32_t chunk = 0; chunk < wants.chunks.size(); ++chunk) {
      places_.push_back({object, chunk});
      wants_.chunks.push_back(wants.chunks[chunk]);
      wants_.chunks.back().object += first;
    }
  }
}

void JoinedChunks::fail_all(const Error& error) noexcept {
  for (const auto& object : objects_) object->fail_all(error);
}

}  // namespace damacy
