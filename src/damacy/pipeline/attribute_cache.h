// Attributes of arrays: names of axes and CF. They are read once for each version of the documents that have them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/stored_attributes.h"

namespace damacy {

class AttributeCache {
 public:
  // `most`: arrays that are kept.
  explicit AttributeCache(std::size_t most) : most_(most) {}
  // Any thread that may read storage. Throws what reading the array's documents throws.
  std::shared_ptr<const ArrayAttributes> of(const Array& array);

 private:
  struct Kept {
    std::vector<AttributesDocument> others;
    std::shared_ptr<const ArrayAttributes> attributes;
  };
  std::shared_ptr<const Kept> find(const Array& array);
  static bool is_current(const Kept& kept, const Array& array);

  const std::size_t most_;
  Mutex mutex_;
  std::map<std::array<std::uint64_t, 2>, std::shared_ptr<const Kept>> kept_
      DAMACY_GUARDED_BY(mutex_);  // by Array::id()
};

}  // namespace damacy
