#include "damacy/pipeline/attribute_cache.h"

#include "damacy/zarr/stored_attributes.h"

namespace damacy {

std::shared_ptr<const ArrayAttributes> AttributeCache::of(const Array& array) {
  {
    const Lock lock(mutex_);
    if (const auto found = kept_.find(array.uri());
        found != kept_.end() && found->second.stamp == array.document_stamp())
      return found->second.attributes;
  }
  const auto read = std::make_shared<const ArrayAttributes>(read_attributes(array));
  const Lock lock(mutex_);
  if (kept_.size() >= most_) kept_.clear();
  kept_[array.uri()] = {array.document_stamp(), read};
  return read;
}

}  // namespace damacy
