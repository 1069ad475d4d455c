// Whether a cache of what was read of an object would notice that the object has changed. Knows stores, stamps and
// versions; not what is kept.
#pragma once

#include <cstdint>

#include "damacy/store/store.h"

namespace damacy {

// Whether any later write to a file gives it another stamp: file systems note times in steps of up to two seconds.
// `now_ns`: the system's time when the file was stamped, or before, in the unit of Stamp::modified_ns.
[[nodiscard]] constexpr bool is_settled(const Stamp& stamp, std::int64_t now_ns) noexcept {
  return now_ns - stamp.modified_ns > 2'000'000'000;
}

// Whether another version of a store's object has another stamp; that of a file, if it is settled. A remote object
// without a version may change and keep its size.
[[nodiscard]] inline bool has_version(const Store& store, const Object& object) {
  return !store.is_remote() || store.is_immutable() || !object.version().empty();
}

}  // namespace damacy
