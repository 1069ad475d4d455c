// Arrays of the C interface.
#include <algorithm>
#include <memory>

#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/cache/disk/environment_tier.h"
#include "damacy/store/mounts.h"
#include "damacy/zarr/array.h"

using damacy::detail::entries;
using damacy::detail::needed;
using damacy::detail::status_of;

struct damacy_array {
  std::shared_ptr<const damacy::Array> array;
};

int damacy_array_open(const char* uri, damacy_array** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    const std::string name = &needed(uri, "uri");
    to = std::make_unique<damacy_array>(
             damacy_array{damacy::open_array(name, damacy::with_environment_tier(damacy::store_of_uri(name)))})
             .release();
  });
}

void damacy_array_destroy(damacy_array* array) {
  const std::unique_ptr<damacy_array> owner(array);
}

int damacy_array_rank(const damacy_array* array, int* rank) {
  return status_of([&] { needed(rank, "rank") = static_cast<int>(needed(array, "array").array->rank()); });
}

int damacy_array_shape(const damacy_array* array, int64_t* shape) {
  return status_of([&] {
    const damacy::Dims& dims = needed(array, "array").array->shape();
    std::ranges::copy(dims, entries(shape, static_cast<std::int64_t>(dims.size()), "shape").begin());
  });
}

int damacy_array_dtype(const damacy_array* array, int* dtype) {
  return status_of([&] { needed(dtype, "dtype") = static_cast<int>(needed(array, "array").array->dtype()); });
}

int damacy_array_read(const damacy_array* array, const int64_t* start, const int64_t* stop, void* data, size_t size) {
  return status_of([&] {
    const damacy::Array& from = *needed(array, "array").array;
    const int rank = static_cast<int>(from.rank());
    if (size > 0) damacy::detail::check_memory(data, "data");
    from.read({damacy::detail::dims_of(start, rank, "start"), damacy::detail::dims_of(stop, rank, "stop")},
              {static_cast<std::byte*>(data), size});
  });
}
