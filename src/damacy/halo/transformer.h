// Packs many boxes of many arrays into one buffer, and unpacks such a buffer. Does not communicate.
//
//   HaloDataTransformer transformer(specs);            // one spec for each array and peer
//   transformer.pack(arrays);                          // the i-th array goes with the i-th spec
//   send(transformer.pack_buffer());
//   receive(transformer.unpack_buffer());
//   transformer.unpack(arrays);
//
// Arrays are in host memory, or in the memory of one device: work is then enqueued on a stream, and nothing waits
// except synchronize() and the two functions that return a buffer. One thread at a time uses a transformer.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

// The first element of a whole allocation, halo included.
struct Array {
  Array(void* first) noexcept : data(first) {}  // NOLINT(google-explicit-constructor): lists of pointers are arrays
  Array(void* first, Dims byte_strides) : data(first), strides(byte_strides) {}
  // Unpacking into it is refused.
  Array(const void* first) noexcept  // NOLINT(google-explicit-constructor)
      : data(const_cast<void*>(first)), is_writable(false) {}

  void* data;
  std::optional<Dims> strides;  // if they differ from the spec's; in bytes
  bool is_writable = true;
};

using Arrays = std::vector<Array>;

struct TransformerOptions {
  Wire wire = Wire::ndsl;
  std::shared_ptr<Device> device = nullptr;  // that has the arrays; null: host memory
  unsigned threads = 1;                      // of a call on the host, the caller's included
};

class HaloDataTransformer {
 public:
  class Bound;
  struct Item;

  // With `y`, each x and y of the same index are the components of a vector. Throws Error(inval), with a reason of
  // spec.h, or Error(dtype).
  explicit HaloDataTransformer(std::vector<HaloExchangeSpec> x, TransformerOptions options = {});
  HaloDataTransformer(std::vector<HaloExchangeSpec> x, std::vector<HaloExchangeSpec> y,
                      TransformerOptions options = {});
  HaloDataTransformer(HaloDataTransformer&&) noexcept;
  HaloDataTransformer& operator=(HaloDataTransformer&&) noexcept;
  ~HaloDataTransformer();  // as finalize()

  // In host memory; complete on return. Throws Error(inval) for other counts than those of the specs, and unpack() for
  // arrays that are read-only or overlap.
  void pack(const Arrays& x, const Arrays& y = {});
  void unpack(const Arrays& x, const Arrays& y = {});
  // In memory of the device; after what `stream` holds, and after this object's earlier work.
  void pack(Stream& stream, const Arrays& x, const Arrays& y = {});
  void unpack(Stream& stream, const Arrays& x, const Arrays& y = {});

  // Checks the arrays once, which makes each later call cheaper. It must not outlive the transformer's finalize().
  [[nodiscard]] Bound bind(const Arrays& x, const Arrays& y = {});

  // Wait until the work so far is complete; with a stream, later work there waits instead.
  std::span<std::byte> pack_buffer();
  std::span<std::byte> unpack_buffer();
  std::span<std::byte> pack_buffer(Stream& stream);
  std::span<std::byte> unpack_buffer(Stream& stream);
  void synchronize();

  bool ready() const noexcept;  // both buffers are held
  // Returns the buffers to the pool. Later calls do nothing.
  void finalize();
  // One line a copy: slots, bytes, path, tiles.
  std::string describe() const;

 private:
  friend void pack_many(std::span<const Item> items);
  friend void pack_many(Stream& stream, std::span<const Item> items);
  friend void unpack_many(std::span<const Item> items);
  friend void unpack_many(Stream& stream, std::span<const Item> items);
  struct State;
  struct Many;
  std::shared_ptr<State> state_;
};

// A transformer with its arrays.
class HaloDataTransformer::Bound {
 public:
  void pack();
  void unpack();
  void pack(Stream& stream);
  void unpack(Stream& stream);

 private:
  friend class HaloDataTransformer;
  struct Copies;
  std::shared_ptr<Copies> copies_;
};

struct HaloDataTransformer::Item {
  HaloDataTransformer* transformer;
  Arrays x;
  Arrays y = {};
};

// All transformers in one launch. Each may be listed once for packing, because it has one pack buffer.
void pack_many(std::span<const HaloDataTransformer::Item> items);
void pack_many(Stream& stream, std::span<const HaloDataTransformer::Item> items);
void unpack_many(std::span<const HaloDataTransformer::Item> items);
void unpack_many(Stream& stream, std::span<const HaloDataTransformer::Item> items);

}  // namespace damacy::halo
