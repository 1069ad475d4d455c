// A finished batch: its numbers, its bytes, and their export. Move-only. The slot is returned when the batch is
// released or destroyed and every tensor made from it is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

struct DLManagedTensor;  // dlpack_abi.h
struct DLManagedTensorVersioned;

namespace damacy {

class Device;
class Event;
class SlotLoan;

struct BatchInfo {
  std::uintptr_t device_ptr = 0;
  Dims shape;  // (samples, *extents)
  Dtype dtype = Dtype::f32;
  std::uint64_t ready_stream = 0;
  std::int64_t batch_id = 0;
};

// Where a batch lives, in DLPack's numbers: {1, 0} host, {2, index} CUDA.
struct DlDevice {
  std::int32_t type = 1;
  std::int32_t index = 0;
  friend bool operator==(const DlDevice&, const DlDevice&) = default;
};

// Elements of a host batch, row-major.
template <class T>
class BatchView : public std::span<const T> {
 public:
  BatchView(std::span<const T> elements, const Dims& shape) : std::span<const T>(elements), shape_(shape) {}
  const Dims& shape() const noexcept { return shape_; }  // (samples, *extents)

 private:
  Dims shape_;
};

class Batch {
 public:
  struct NamedInfo {
    std::string name;  // empty: the only array
    BatchInfo info;
  };
  // At least one array. `device`: null for host memory.
  Batch(std::vector<NamedInfo> arrays, std::shared_ptr<Device> device, std::shared_ptr<SlotLoan> loan,
        std::vector<bool> valid, std::vector<std::int64_t> sample_indices,
        std::vector<std::shared_ptr<const void>> origins = {});
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  // Of the array of that name; without a name of the only array. Error(inval, "names"): there is no such array, or
  // there are several. Error(inval, "arguments") after release.
  BatchInfo info(std::optional<std::string_view> array = {}) const;
  std::vector<std::string> names() const;  // empty: one array without a name
  std::int64_t batch_id() const noexcept;
  const std::vector<bool>& valid() const;                           // by row; false where fill replaced a failure
  const std::vector<std::int64_t>& sample_indices() const;          // stream indices of the rows
  const std::vector<std::shared_ptr<const void>>& origins() const;  // Sample::origin of the rows; also after release
  DlDevice device() const;
  bool released() const;
  bool on_host() const noexcept;  // also after release

  // The elements of an array, row-major, of a host batch. Valid until release.
  std::span<const std::byte> bytes(std::optional<std::string_view> array = {}) const;
  // The same as elements. Error(dtype, "dtype"): they are of another type.
  template <class T>
    requires(kDtypeOf<T>.has_value())
  BatchView<T> view(std::optional<std::string_view> array = {}) const {
    const BatchInfo elements = info(array);
    check_type(elements, *kDtypeOf<T>);
    return {{reinterpret_cast<const T*>(bytes(array).data()), bytes(array).size() / sizeof(T)}, elements.shape};
  }

  // Returns the slot as soon as no tensor uses it. `stream`: the slot's next writer waits for the work queued there so
  // far (CUDA only).
  void release(std::optional<std::uint64_t> stream = {}) noexcept;
  // The same behind work of our own device layer.
  void release_after(Event last_use) noexcept;

  // How a batch is exported. A view holds the slot. A copy has its own memory, on the batch's device or the host, and
  // waits for the work queued so far on the streams to which views of the batch were exported.
  struct Export {
    bool copy = false;
    bool to_host = false;                 // CUDA only; implies a copy
    std::optional<std::uint64_t> stream;  // that the consumer works on, numbered as by DLPack; kAnyStream: not said
    std::optional<std::string_view> array = {};
  };
  static constexpr std::uint64_t kAnyStream = ~std::uint64_t{0};
  // The caller owns the result and calls its deleter, on any thread, at any time, also during process exit.
  DLManagedTensor* to_dlpack(const Export& how) const;
  DLManagedTensor* to_dlpack() const { return to_dlpack(Export{}); }
  DLManagedTensorVersioned* to_dlpack_versioned(const Export& how) const;

 private:
  static void check_type(const BatchInfo& info, Dtype wanted);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace damacy
