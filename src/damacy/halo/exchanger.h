// Exchanges halos between ranks: packs, sends and receives by a transport, unpacks.
//
//   const auto plan = compile({field}, CubedSphere(1), rank, /*width=*/1);
//   Exchanger exchanger(plan, transport);
//   exchanger.exchange({data});                       // or start(), work on inner cells, finish()
//
// There is one message for each peer. Arrays are in host memory, or in the memory of a device: then packing and
// unpacking are enqueued on a stream, messages pass through page-locked memory, and the host waits for them. A
// transport that sends in stream order (NCCL) takes messages from device memory, and the host waits for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/transport.h"

namespace damacy::halo {

// The messages that a rank sends and receives. Any number of exchangers may use it.
class ExchangePlan;
using ExchangePlanPtr = std::shared_ptr<const ExchangePlan>;

struct ExchangeOptions {
  // Indices of the fields that are the x and the y component of a vector.
  std::vector<std::pair<std::int64_t, std::int64_t>> vectors = {};
  Wire wire = Wire::native;
  CornerFill fill = CornerFill::none;  // of a cubed sphere
};

// The plan of one rank. Throws Error(inval), with a reason of spec.h; Error(dtype) for vectors that cannot be rotated.
[[nodiscard]] ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const CubedSphere& sphere,
                                      std::int64_t rank, std::int64_t width, const ExchangeOptions& options = {});
// `dims`: the names of the decomposed dimensions. Every field has the cells of the rank's block.
[[nodiscard]] ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const Cartesian& grid,
                                      const std::vector<std::string>& dims, std::int64_t rank, const Width& width,
                                      const ExchangeOptions& options = {});
[[nodiscard]] ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const RankLinks& links,
                                      std::int64_t rank, const Width& width, const ExchangeOptions& options = {});
// For the shared edges of a C-grid vector: x on (j_interface, i), y on (j, i_interface). Exchange {x, y}.
[[nodiscard]] ExchangePlanPtr compile_interfaces(const QuantityHaloSpec& x, const QuantityHaloSpec& y,
                                                 const CubedSphere& sphere, std::int64_t rank);
[[nodiscard]] ExchangePlanPtr compile_interfaces(const QuantityHaloSpec& x, const QuantityHaloSpec& y,
                                                 const RankLinks& links, std::int64_t rank);

[[nodiscard]] std::vector<std::int64_t> peers_of(const ExchangePlan& plan);

struct ExchangerOptions {
  int depth = 2;                             // exchanges in flight
  std::shared_ptr<Device> device = nullptr;  // that has the arrays; null: host memory
  unsigned threads = 1;                      // of packing and unpacking on the host
};

// One thread at a time uses it. An exchange that fails before its messages are sent can be started again. If one fails
// later, peers already have messages of it: the exchanger then refuses every call except close().
class Exchanger {
 public:
  // An exchange that was started; it must be finished once, and with sequential corners in the order of the starts.
  // `stream`: of the arrays' device.
  class Token {
   private:
    friend class Exchanger;
    struct State;
    std::shared_ptr<State> state_;
  };

  // Throws Error(inval, kMisuse) if a peer expects other messages.
  Exchanger(ExchangePlanPtr plan, Transport& transport, ExchangerOptions options = {});
  ~Exchanger();
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // `arrays`: the first element of each field's allocation. The halos are valid after finish().
  [[nodiscard]] Token start(const std::vector<void*>& arrays);
  void finish(Token& token);
  void exchange(const std::vector<void*>& arrays);

  // On a device: finish() returns when unpacking is enqueued on `stream`.
  [[nodiscard]] Token start(Stream& stream, const std::vector<void*>& arrays);
  void finish(Stream& stream, Token& token);
  void exchange(Stream& stream, const std::vector<void*>& arrays);

  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace damacy::halo
