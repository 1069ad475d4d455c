// Attributes of arrays: names of axes and CF. They are read once for each version of an array's document.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "damacy/core/mutex.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/array_attributes.h"

namespace damacy {

class AttributeCache {
 public:
  // `most`: arrays that are kept.
  explicit AttributeCache(std::size_t most) : most_(most) {}
  // Any thread that may read storage. Throws what reading the array's documents throws.
  std::shared_ptr<const ArrayAttributes> of(const Array& array);

 private:
  struct Kept {
    Stamp stamp;
    std::shared_ptr<const ArrayAttributes> attributes;
  };
  const std::size_t most_;
  Mutex mutex_;
  std::unordered_map<std::string, Kept> kept_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
