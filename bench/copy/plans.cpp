#include "plans.h"

#include <chrono>
#include <cstring>
#include <string>

#include "damacy/copy/copy_plan.h"
#include "damacy/halo/wire.h"
#include "damacy/halo/work_order.h"

namespace damacy::bench {
namespace {

constexpr std::int64_t kHalo = 3, kLevels = 79;

// Fields of (cells + 7)² × 80 elements with a compute domain of cells² × 79, and their eight boundaries.
struct Case {
  const char* name;
  Dtype dtype;
  bool k_inside;  // k is contiguous, else i
  halo::Wire wire;
  std::int64_t cells = 192;
  int fields = 10;
};

Dims strides_of(const Case& c) {
  const auto size = static_cast<std::int64_t>(size_of(c.dtype)), side = c.cells + 7;
  if (c.k_inside) return {side * (kLevels + 1) * size, (kLevels + 1) * size, size};
  return {size, side * size, side * side * size};
}

// Along one axis: the halo cells on that side, or the cells for the peer's halo there.
std::pair<std::int64_t, std::int64_t> range_of(std::int64_t cells, int side, bool inner) {
  if (side == 0) return {kHalo, kHalo + cells};
  if (side < 0) return inner ? std::pair{kHalo, 2 * kHalo} : std::pair{std::int64_t{0}, kHalo};
  return inner ? std::pair{cells, cells + kHalo} : std::pair{kHalo + cells, 2 * kHalo + cells};
}

int rotation_of(int i_side, int j_side) {
  if (i_side < 0 && j_side == 0) return 1;  // west
  return i_side == 0 && j_side > 0 ? 3 : 0;
}

std::shared_ptr<const copy::Plan> plan_of(const Case& c, bool unpack) {
  const Dims shape{c.cells + 7, c.cells + 7, kLevels + 1};
  std::vector<halo::Field> fields;
  halo::Message message;
  message.wire = c.wire;
  for (int i_side = -1; i_side <= 1; ++i_side)
    for (int j_side = -1; j_side <= 1; ++j_side)
      for (int field = 0; field < c.fields && (i_side != 0 || j_side != 0); ++field) {
        const auto i = range_of(c.cells, i_side, !unpack), j = range_of(c.cells, j_side, !unpack);
        const auto number = static_cast<std::uint32_t>(fields.size());
        fields.push_back({c.dtype, shape, strides_of(c), 0, 1});
        message.entries.push_back({{number, {{i.first, j.first, 0}, {i.second, j.second, kLevels}}},
                                   {},
                                   unpack ? 0 : rotation_of(i_side, j_side),
                                   false});
      }
  const auto direction = unpack ? halo::Direction::unpack : halo::Direction::pack;
  return halo::compile(fields, std::span(&message, 1), {}, direction).plan;
}

// The memory of a case, on the host or on the device: all fields, then the buffer.
struct Memory {
  std::uint64_t at;
  std::size_t field_bytes, fields;
  copy::Bases bases(std::size_t slots) const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i + 1 < slots; ++i) all.push_back(at + i % fields * field_bytes);
    all.push_back(at + fields * field_bytes);
    return std::make_shared<const std::vector<std::uint64_t>>(std::move(all));
  }
};

double median_us(int times, const std::function<double()>& one) {
  std::vector<double> taken;
  for (int i = 0; i < times; ++i) taken.push_back(one());
  std::ranges::nth_element(taken, taken.begin() + times / 2);
  return taken[static_cast<std::size_t>(times) / 2];
}

struct Times {
  double gpu_us, host_us, issue_us;
};

// GPU time: 50 calls back to back after other work. Host time: until the stream is idle, and until the call returns.
Times times_of(Runner& runner, const std::function<void()>& call, const DeviceBuffer& ahead) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  const auto many = [&] {
    for (int i = 0; i < 50; ++i) call();
  };
  Times times{};
  times.gpu_us = runner.median_ms(many, 9, ahead) * 1e3 / 50;
  times.host_us = median_us(200, [&] {
    const auto begin = Clock::now();
    call();
    check(cudaStreamSynchronize(runner.handle()), "synchronize");
    return us(Clock::now() - begin);
  });
  times.issue_us = median_us(200, [&] {
    const auto begin = Clock::now();
    call();
    const auto taken = us(Clock::now() - begin);
    check(cudaStreamSynchronize(runner.handle()), "synchronize");
    return taken;
  });
  return times;
}

bool time_plan(Runner& runner, const Case& c, bool unpack, const DeviceBuffer& ahead) {
  const auto plan = plan_of(c, unpack);
  const std::size_t slots = plan->slots().size(), fields = static_cast<std::size_t>(c.fields);
  const Dims& strides = plan->slots()[0].strides;
  const std::size_t field_bytes =
      static_cast<std::size_t>(strides[c.k_inside ? 0 : 2] * (c.k_inside ? c.cells + 7 : kLevels + 1));
  const DeviceBuffer device(field_bytes * fields + 2 * plan->bytes()), copied(2 * plan->bytes());
  std::vector<std::byte> host(device.bytes().size()), got(host.size());
  for (std::size_t i = 0; i + 8 <= host.size(); i += 8) {
    const std::uint64_t value = i * 0x9e3779b97f4a7c15u;
    std::memcpy(host.data() + i, &value, 8);
  }
  device.write(host);
  const auto bases = Memory{device.address(), field_bytes, fields}.bases(slots);
  halo::WorkOrder order;
  const auto run = [&] { order.run(runner.stream(), {}, {}, 0, plan, bases); };
  run();
  check(cudaStreamSynchronize(runner.handle()), "synchronize");
  copy::run(*plan, *Memory{reinterpret_cast<std::uint64_t>(host.data()), field_bytes, fields}.bases(slots));
  device.read(got);
  const bool right = got == host;
  const Times ours = times_of(runner, run, ahead);
  const Times theirs = times_of(
      runner,
      [&] {
        check(cudaMemcpyAsync(copied.as<void>(), copied.as<std::byte>() + plan->bytes(), plan->bytes(),
                              cudaMemcpyDeviceToDevice, runner.handle()),
              "copy");
      },
      ahead);
  std::printf(
      "{\"case\": \"%s\", \"what\": \"%s\", \"bytes\": %zu, \"tiles\": %u, \"gpu_us\": %.2f, \"host_us\": %.2f, "
      "\"issue_us\": %.2f, \"memcpy\": {\"gpu_us\": %.2f, \"host_us\": %.2f, \"issue_us\": %.2f}, \"right\": %s}\n",
      c.name, unpack ? "unpack" : "pack", static_cast<std::size_t>(plan->bytes()), plan->phases()[0].tiles, ours.gpu_us,
      ours.host_us, ours.issue_us, theirs.gpu_us, theirs.host_us, theirs.issue_us, right ? "true" : "false");
  std::fflush(stdout);
  return right;
}

}  // namespace

bool time_plans(Runner& runner) {
  const DeviceBuffer ahead(std::size_t{4} << 30);
  bool right = true;
  for (const Case& c : {Case{"k-cont. ndsl float64", Dtype::f64, true, halo::Wire::ndsl},
                        Case{"i-cont. native float64", Dtype::f64, false, halo::Wire::native},
                        Case{"k-cont. ndsl bfloat16 x4 fields", Dtype::bf16, true, halo::Wire::ndsl, 192, 40},
                        Case{"k-cont. ndsl bfloat16", Dtype::bf16, true, halo::Wire::ndsl},
                        Case{"k-cont. ndsl float32", Dtype::f32, true, halo::Wire::ndsl},
                        Case{"k-cont. ndsl float64 1 field", Dtype::f64, true, halo::Wire::ndsl, 192, 1},
                        Case{"k-cont. ndsl float64 48 cells", Dtype::f64, true, halo::Wire::ndsl, 48}})
    for (const bool unpack : {false, true}) right = time_plan(runner, c, unpack, ahead) && right;
  return right;
}

}  // namespace damacy::bench
