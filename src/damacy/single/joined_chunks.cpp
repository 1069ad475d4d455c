#include "damacy/single/joined_chunks.h"

namespace damacy {

void JoinedChunks::open() {
  for (std::uint32_t object = 0; object < objects_.size(); ++object) {
    const auto failure = failure_of([&] { objects_[object]->open(); });
    if (failure) {
      objects_[object]->fail_all(*failure);
      throw Error(*failure);
    }
    for (const Group& group : objects_[object]->groups())
      for (std::uint32_t chunk = group.first; chunk < group.first + group.count; ++chunk)
        places_.push_back({object, chunk});
  }
}

std::vector<LocatedChunks::Group> JoinedChunks::groups() const {
  std::vector<Group> all;
  std::uint32_t first = 0;
  for (const auto& object : objects_)
    for (const Group& group : object->groups()) {
      all.push_back({first, group.count});
      first += group.count;
    }
  return all;
}

void JoinedChunks::fail_all(const Error& error) noexcept {
  for (const auto& object : objects_) object->fail_all(error);
}

}  // namespace damacy
