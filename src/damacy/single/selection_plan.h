// The plan of a selection read: which parts of stored objects go where, and which bytes of each object are needed.
// Knows documents, indices and selections; reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "damacy/core/coalesce.h"
#include "damacy/plan/indexing.h"
#include "damacy/single/selection_job.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// An array of the size of one stored object, which is enough for a read, for any shape of the real array.
// `document`: tells its document from all others, for Array::id(), which keys of caches need.
[[nodiscard]] std::shared_ptr<const Array> stored_array(const std::string& uri, ArrayMetadata metadata,
                                                        const Stamp& document = {});
// Throws what parsing the document throws.
[[nodiscard]] std::shared_ptr<const Array> stored_array(const std::string& uri, std::string_view document,
                                                        int zarr_format);

// The size of the index of one stored object. 0 if there is no index that locates all chunks by itself: then the whole
// object is needed.
[[nodiscard]] std::uint64_t index_bytes(const Array& array);

class SelectionPlan {
 public:
  static constexpr std::uint64_t kUnknownSize = std::uint64_t{1} << 62;  // of an object

  // The memory that elements go to.
  struct Output {
    std::uint64_t address = 0;  // of element (0, ..., 0), on the host or on a device
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // bytes, signed
    bool swap = false;                  // in the other byte order
  };

  // `fill`: one element, in this machine's byte order; Error(inval, "arguments") if it has another size.
  SelectionPlan(std::shared_ptr<const Array> array, Output output, std::span<const std::byte> fill,
                std::vector<std::int64_t> drop_axes);

  // output[to] = squeeze(object[from], drop_axes) for the object `key`. False: a form of selection that is not
  // supported.
  bool add(const std::string& key, std::span<const IndexEntry> from, std::span<const IndexEntry> to);

  // One byte for each call of add(), out of one byte for each item of the request: points become several items.
  [[nodiscard]] std::string of_items(std::string_view by_selection) const;

  // The ranges of the object `key` that its items need, given the object's index; neighbours are merged. Throws
  // Error(io, "short-read") if the index has another size, and what parsing it throws.
  [[nodiscard]] std::vector<MergedRead> ranges(const std::string& key, std::span<const std::byte> index,
                                               std::uint64_t gap, std::uint64_t cap) const;

  [[nodiscard]] SelectionRequest take() { return std::move(request_); }

 private:
  void add_item(const std::string& key, std::vector<AxisRuns> runs);

  std::vector<std::int64_t> drop_axes_;
  OutLayout layout_;
  SelectionRequest request_;
  std::vector<std::uint32_t> firsts_;  // item of the request, by item as added
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_key_;
};

}  // namespace damacy
