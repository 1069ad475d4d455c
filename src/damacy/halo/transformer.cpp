// Every call gathers the addresses of its arrays, and runs the plan of their layouts.
#include "damacy/halo/transformer.h"

#include <cstring>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/halo/buffer_pool.h"
#include "damacy/halo/transformer_plan.h"
#include "damacy/halo/work_order.h"

namespace damacy::halo {
namespace {

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

}  // namespace

struct HaloDataTransformer::State {
  State(TransformerSpecs specs, TransformerOptions chosen)
      : options(std::move(chosen)), plans(std::move(specs), options.wire) {
    for (const Direction direction : {Direction::pack, Direction::unpack})
      buffers[at(direction)] = take(plans.buffer_bytes(direction));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    // Work of the device that failed may still use the buffers: they are freed, not lent again.
    (void)failure_of([this] { finalize(); });
  }

  static std::size_t at(Direction direction) { return direction == Direction::pack ? 0 : 1; }

  MessageBuffer take(std::size_t bytes) {
    MessageBuffer buffer = BufferPool::process().take(options.device, bytes);
    if (options.device == nullptr) {
      if (options.wire == Wire::native && bytes > 0) std::memset(buffer.bytes().data(), 0, bytes);  // gaps
      return buffer;
    }
    if (options.wire == Wire::native && bytes > 0) {
      const auto stream = options.device->make_stream();
      stream->wait(buffer.last_use);
      stream->fill(buffer.bytes(), std::byte{0});
      buffer.last_use = stream->record();
    }
    order.order_after(buffer.last_use);
    return buffer;
  }

  void check_held() const {
    if (finalized) throw Error(Status::inval, "this halo transformer is finalized", kMisuse);
  }

  GatheredArrays gather(const Arrays& x, const Arrays& y) const {
    check_held();
    const TransformerSpecs& specs = plans.specs();
    check_counts(specs, x.size(), y.empty() ? std::nullopt : std::optional(y.size()));
    GatheredArrays out;
    for (std::size_t i = 0; i < specs.count(); ++i) {
      const Array& array = i < x.size() ? x[i] : y[i - x.size()];
      const QuantityHaloSpec& spec = specs[i].quantity;
      if (array.data == nullptr && product(spec.shape.span()).value_or(1) != 0)
        throw Error(Status::inval, formatted("{} has no memory", name_of_array(specs, i)), "arguments");
      if (array.strides && array.strides->size() != spec.shape.size())
        throw Error(Status::inval,
                    formatted("{} has strides {}, expected one for each dimension of shape {}", name_of_array(specs, i),
                              tuple_text(array.strides->span()), tuple_text(spec.shape.span())));
      add_array(out, specs, address_of(array.data), array.strides ? *array.strides : spec.strides, array.is_writable);
    }
    return out;
  }

  std::uint64_t message(Direction direction) const { return address_of(buffers[at(direction)].bytes().data()); }

  void check_place(bool on_stream) const {
    if (on_stream != (options.device != nullptr))
      throw Error(Status::inval,
                  on_stream ? "this transformer is for arrays in host memory: call it without a stream"
                            : "this transformer is for arrays in device memory: pass a stream",
                  kMisuse);
  }

  void run(Direction direction, Stream* stream, const Arrays& x, const Arrays& y) {
    check_held();
    check_place(stream != nullptr);
    auto [plan, bases] = plans.prepared(direction, gather(x, y), message(direction));
    if (stream == nullptr)
      copy::run(*plan->plan, bases, options.threads);
    else
      order.run(*stream, {}, {}, options.device->index(), plan->plan, std::move(bases));
  }

  std::span<std::byte> buffer(Direction direction, Stream* stream) {
    if (finalized)
      throw Error(Status::inval,
                  direction == Direction::pack ? "Send buffer can't be retrieved before allocate()"
                                               : "Recv buffer can't be retrieved before allocate()",
                  kMisuse);
    if (stream == nullptr)
      order.synchronize();
    else
      order.make_wait(*stream);
    return buffers[at(direction)].bytes();
  }

  void finalize() {
    if (std::exchange(finalized, true)) return;
    order.synchronize();
    for (MessageBuffer& held : buffers) {
      held.last_use = {};
      BufferPool::process().give(std::move(held));
      held = {};
    }
  }

  TransformerOptions options;
  TransformerPlans plans;
  MessageBuffer buffers[2];
  WorkOrder order;
  bool finalized = false;
};

struct HaloDataTransformer::Bound::Copies {
  std::shared_ptr<State> state;
  std::shared_ptr<const Compiled> plans[2];  // the second is null for arrays that are read-only
  copy::Bases bases[2];
  std::string read_only;

  void run(Direction direction, Stream* stream) const {
    state->check_held();
    state->check_place(stream != nullptr);
    const std::size_t at = State::at(direction);
    if (plans[at] == nullptr)
      throw Error(Status::inval, formatted("{} is read-only, but unpacking writes to it", read_only));
    if (stream == nullptr)
      copy::run(*plans[at]->plan, *bases[at], state->options.threads);
    else
      state->order.run(*stream, {}, {}, state->options.device->index(), plans[at]->plan, bases[at]);
  }
};

// Several transformers as one plan: their fields one after the other, then their buffers.
struct HaloDataTransformer::Many {
  static void run(Direction direction, Stream* stream, std::span<const Item> items) {
    if (items.empty()) return;
    State& first = *items[0].transformer->state_;
    std::vector<GatheredArrays> arrays;
    std::vector<TransformerPlans::Item> all;
    for (const Item& item : items) {
      const State& state = *item.transformer->state_;
      if (state.options.device != first.options.device)
        throw Error(Status::inval, "expected arrays of one device: the arrays of this exchange are on several");
      arrays.push_back(state.gather(item.x, item.y));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      State& state = *items[i].transformer->state_;
      all.push_back({&state.plans, &arrays[i], state.message(direction)});
    }
    first.check_place(stream != nullptr);
    auto [plan, bases] = TransformerPlans::prepared(direction, all);
    if (stream == nullptr) return copy::run(*plan->plan, bases, first.options.threads);
    for (const Item& item : items.subspan(1))
      if (State& other = *item.transformer->state_; &other != &first) first.order.order_after(other.order.mark());
    first.order.run(*stream, {}, {}, first.options.device->index(), plan->plan, std::move(bases));
    for (const Item& item : items.subspan(1))
      if (State& other = *item.transformer->state_; &other != &first) other.order.order_after(first.order.mark());
  }
};

HaloDataTransformer::HaloDataTransformer(std::vector<HaloExchangeSpec> x, TransformerOptions options)
    : state_(std::make_shared<State>(TransformerSpecs{std::move(x), std::nullopt}, std::move(options))) {}

HaloDataTransformer::HaloDataTransformer(std::vector<HaloExchangeSpec> x, std::vector<HaloExchangeSpec> y,
                                         TransformerOptions options)
    : state_(std::make_shared<State>(TransformerSpecs{std::move(x), std::move(y)}, std::move(options))) {}

HaloDataTransformer::HaloDataTransformer(HaloDataTransformer&&) noexcept = default;
HaloDataTransformer& HaloDataTransformer::operator=(HaloDataTransformer&&) noexcept = default;

HaloDataTransformer::~HaloDataTransformer() {
  if (state_ != nullptr) (void)failure_of([this] { state_->finalize(); });
}

void HaloDataTransformer::pack(const Arrays& x, const Arrays& y) {
  state_->run(Direction::pack, nullptr, x, y);
}

void HaloDataTransformer::unpack(const Arrays& x, const Arrays& y) {
  state_->run(Direction::unpack, nullptr, x, y);
}

void HaloDataTransformer::pack(Stream& stream, const Arrays& x, const Arrays& y) {
  state_->run(Direction::pack, &stream, x, y);
}

void HaloDataTransformer::unpack(Stream& stream, const Arrays& x, const Arrays& y) {
  state_->run(Direction::unpack, &stream, x, y);
}

HaloDataTransformer::Bound HaloDataTransformer::bind(const Arrays& x, const Arrays& y) {
  auto copies = std::make_shared<Bound::Copies>();
  copies->state = state_;
  const GatheredArrays arrays = state_->gather(x, y);
  copies->read_only = arrays.read_only;
  for (const Direction direction : {Direction::pack, Direction::unpack}) {
    if (direction == Direction::unpack && !arrays.read_only.empty()) continue;
    auto [plan, bases] = state_->plans.prepared(direction, arrays, state_->message(direction));
    copies->plans[State::at(direction)] = std::move(plan);
    copies->bases[State::at(direction)] = std::make_shared<const Addresses>(std::move(bases));
  }
  Bound bound;
  bound.copies_ = std::move(copies);
  return bound;
}

std::span<std::byte> HaloDataTransformer::pack_buffer() {
  return state_->buffer(Direction::pack, nullptr);
}

std::span<std::byte> HaloDataTransformer::unpack_buffer() {
  return state_->buffer(Direction::unpack, nullptr);
}

std::span<std::byte> HaloDataTransformer::pack_buffer(Stream& stream) {
  return state_->buffer(Direction::pack, &stream);
}

std::span<std::byte> HaloDataTransformer::unpack_buffer(Stream& stream) {
  return state_->buffer(Direction::unpack, &stream);
}

void HaloDataTransformer::synchronize() {
  state_->order.synchronize();
}

bool HaloDataTransformer::ready() const noexcept {
  return !state_->finalized;
}

void HaloDataTransformer::finalize() {
  state_->finalize();
}

std::string HaloDataTransformer::describe() const {
  return state_->plans.describe(state_->options.device != nullptr);
}

void HaloDataTransformer::Bound::pack() {
  copies_->run(Direction::pack, nullptr);
}

void HaloDataTransformer::Bound::unpack() {
  copies_->run(Direction::unpack, nullptr);
}

void HaloDataTransformer::Bound::pack(Stream& stream) {
  copies_->run(Direction::pack, &stream);
}

void HaloDataTransformer::Bound::unpack(Stream& stream) {
  copies_->run(Direction::unpack, &stream);
}

void pack_many(std::span<const HaloDataTransformer::Item> items) {
  HaloDataTransformer::Many::run(Direction::pack, nullptr, items);
}

void pack_many(Stream& stream, std::span<const HaloDataTransformer::Item> items) {
  HaloDataTransformer::Many::run(Direction::pack, &stream, items);
}

void unpack_many(std::span<const HaloDataTransformer::Item> items) {
  HaloDataTransformer::Many::run(Direction::unpack, nullptr, items);
}

void unpack_many(Stream& stream, std::span<const HaloDataTransformer::Item> items) {
  HaloDataTransformer::Many::run(Direction::unpack, &stream, items);
}

}  // namespace damacy::halo
