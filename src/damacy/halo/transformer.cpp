// Every call gathers the addresses of its arrays, and runs the plan of their layouts.
#include "damacy/halo/transformer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/halo/buffer_pool.h"
#include "damacy/halo/plan_cache.h"
#include "damacy/halo/transformer_plan.h"
#include "damacy/halo/work_order.h"

namespace damacy::halo {
namespace {

using Addresses = std::vector<std::uint64_t>;

constexpr std::size_t kCheckedLayouts = 8;  // sets of addresses that were checked for overlap

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

void check_count(std::size_t given, std::size_t expected, const char* component) {
  if (given != expected)
    throw Error(Status::inval, formatted("Quantities count: {} for {} specs in {}", given, expected, component),
                kMisuse);
}

}  // namespace

struct HaloDataTransformer::State {
  // The arrays of a call, in the order of the specs.
  struct Gathered {
    Addresses addresses;
    std::vector<Field> fields;
    bool has_own_layout = true;  // the strides are those of the specs
    std::string read_only;       // the name of a read-only array
  };

  State(TransformerSpecs given, TransformerOptions chosen) : specs(std::move(given)), options(std::move(chosen)) {
    check(specs);
    for (std::size_t i = 0; i < specs.count(); ++i)
      fields.push_back(field_of(specs[i].quantity, specs[i].quantity.strides));
    for (const Direction direction : {Direction::pack, Direction::unpack}) {
      plans[at(direction)] = plan_of(fields, direction);
      buffers[at(direction)] = take(static_cast<std::size_t>(plans[at(direction)]->buffer_bytes.at(0)));
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    // Work of the device that failed may still use the buffers: they are freed, not lent again.
    (void)failure_of([this] { finalize(); });
  }

  static std::size_t at(Direction direction) { return direction == Direction::pack ? 0 : 1; }

  std::shared_ptr<const Compiled> plan_of(const std::vector<Field>& own, Direction direction) const {
    return cached_plan(own, {message_of(specs, direction, options.wire)}, direction);
  }

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

  Gathered gather(const Arrays& x, const Arrays& y) const {
    check_held();
    check_count(x.size(), specs.x.size(), "x");
    if (!specs.y && !y.empty()) throw Error(Status::inval, "Quantities count: y given for no specs in y", kMisuse);
    if (specs.y && y.empty())
      throw Error(Status::inval, formatted("Quantities count: y missing for {} specs in y", specs.y->size()), kMisuse);
    if (specs.y) check_count(y.size(), specs.y->size(), "y");
    Gathered out;
    for (std::size_t i = 0; i < specs.count(); ++i) {
      const Array& array = i < x.size() ? x[i] : y[i - x.size()];
      const auto name = [&] {
        return i < x.size() ? formatted("quantity {}", i) : formatted("quantity {} of y", i - x.size());
      };
      if (array.data == nullptr && product(fields[i].shape.span()).value_or(1) != 0)
        throw Error(Status::inval, formatted("{} has no memory", name()), "arguments");
      if (array.strides && array.strides->size() != fields[i].shape.size())
        throw Error(Status::inval, formatted("{} has strides {}, expected one for each dimension of shape {}", name(),
                                             tuple_text(array.strides->span()), tuple_text(fields[i].shape.span())));
      out.addresses.push_back(address_of(array.data));
      if (array.strides && !(*array.strides == fields[i].strides)) out.has_own_layout = false;
      if (!array.is_writable && out.read_only.empty()) out.read_only = name();
    }
    if (out.has_own_layout) return out;
    out.fields = fields;
    for (std::size_t i = 0; i < specs.count(); ++i)
      if (const Array& array = i < x.size() ? x[i] : y[i - x.size()]; array.strides)
        out.fields[i].strides = *array.strides;
    return out;
  }

  void check_writable(const Gathered& arrays) const {
    if (!arrays.read_only.empty())
      throw Error(Status::inval, formatted("{} is read-only, but unpacking writes to it", arrays.read_only));
  }

  // Checked once for each plan and set of addresses.
  void check_overlaps(const std::shared_ptr<const Compiled>& plan, const Addresses& bases) {
    for (const auto& [known, addresses] : checked)
      if (known == plan && addresses == bases) return;
    copy::check_overlaps(*plan->plan, bases);
    checked.emplace_back(plan, bases);
    if (checked.size() > kCheckedLayouts) checked.pop_front();
  }

  std::pair<std::shared_ptr<const Compiled>, Addresses> prepared(Direction direction, const Arrays& x,
                                                                 const Arrays& y) {
    Gathered arrays = gather(x, y);
    auto plan = arrays.has_own_layout ? plans[at(direction)] : plan_of(arrays.fields, direction);
    arrays.addresses.push_back(address_of(buffers[at(direction)].bytes().data()));
    if (direction == Direction::unpack) {
      check_writable(arrays);
      check_overlaps(plan, arrays.addresses);
    }
    return {std::move(plan), std::move(arrays.addresses)};
  }

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
    auto [plan, bases] = prepared(direction, x, y);
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

  TransformerSpecs specs;
  TransformerOptions options;
  std::vector<Field> fields;
  std::shared_ptr<const Compiled> plans[2];  // of the specs' own layouts
  MessageBuffer buffers[2];
  WorkOrder order;
  bool finalized = false;
  std::deque<std::pair<std::shared_ptr<const Compiled>, Addresses>> checked;
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
    std::vector<Field> fields;
    std::vector<Message> messages;
    Addresses bases, buffers;
    State& first = *items[0].transformer->state_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      State& state = *items[i].transformer->state_;
      for (std::size_t other = 0; other < i; ++other)
        if (direction == Direction::pack && items[other].transformer->state_.get() == &state)
          throw Error(Status::inval, "pack_many: each transformer may be listed once, because it has one pack buffer");
      if (state.options.device != first.options.device)
        throw Error(Status::inval, "expected arrays of one device: the arrays of this exchange are on several");
      auto arrays = state.gather(items[i].x, items[i].y);
      if (direction == Direction::unpack) state.check_writable(arrays);
      messages.push_back(
          message_of(state.specs, direction, state.options.wire, static_cast<std::uint32_t>(fields.size())));
      const auto& own = arrays.has_own_layout ? state.fields : arrays.fields;
      fields.insert(fields.end(), own.begin(), own.end());
      bases.insert(bases.end(), arrays.addresses.begin(), arrays.addresses.end());
      buffers.push_back(address_of(state.buffers[State::at(direction)].bytes().data()));
    }
    first.check_place(stream != nullptr);
    bases.insert(bases.end(), buffers.begin(), buffers.end());
    const auto plan = cached_plan(fields, messages, direction);
    if (direction == Direction::unpack) first.check_overlaps(plan, bases);
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
  copies->read_only = state_->gather(x, y).read_only;
  for (const Direction direction : {Direction::pack, Direction::unpack}) {
    if (direction == Direction::unpack && !copies->read_only.empty()) continue;
    auto [plan, bases] = state_->prepared(direction, x, y);
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
  std::string out;
  for (const Direction direction : {Direction::pack, Direction::unpack}) {
    const copy::Plan& plan = *state_->plans[State::at(direction)]->plan;
    const char* const name = direction == Direction::pack ? "pack" : "unpack";
    out += formatted("{}:\n{}{}: {} bytes, {} launches\n", name, plan.describe(), name, plan.bytes(),
                     plan.phases().size());
  }
  return out;
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
