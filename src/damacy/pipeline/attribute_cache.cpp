#include "damacy/pipeline/attribute_cache.h"

#include <algorithm>

namespace damacy {

std::shared_ptr<const ArrayAttributes> AttributeCache::of(const Array& array) {
  if (auto kept = find(array); kept && is_current(*kept, array)) return kept->attributes;
  auto read = std::make_shared<Kept>();
  read->attributes = std::make_shared<const ArrayAttributes>(read_attributes(array, &read->others));
  auto attributes = read->attributes;
  const Lock lock(mutex_);
  if (kept_.size() >= most_) kept_.clear();
  kept_[array.id()] = std::move(read);
  return attributes;
}

std::shared_ptr<const AttributeCache::Kept> AttributeCache::find(const Array& array) {
  const Lock lock(mutex_);
  const auto found = kept_.find(array.id());
  return found == kept_.end() ? nullptr : found->second;
}

// The version of the array's own document is part of its id.
bool AttributeCache::is_current(const Kept& kept, const Array& array) {
  return std::ranges::all_of(kept.others, [&](const AttributesDocument& document) {
    return array.store()->stamp(document.key) == document.stamp;
  });
}

}  // namespace damacy
