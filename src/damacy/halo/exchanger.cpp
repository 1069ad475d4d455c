// The steps of an exchange: post receives, pack, send; then for each phase wait, unpack, and begin the next one.
#include "damacy/halo/exchanger.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/halo/buffer_pool.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/work_order.h"

namespace damacy::halo {
namespace {

using Addresses = std::vector<std::uint64_t>;

constexpr std::size_t kCheckedArrays = 8;

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

// A message's memory: where it is packed, and where the transport has it.
struct MessageMemory {
  HostBuffer host;
  HostBuffer device;  // none for arrays in host memory

  std::uint64_t packed_at() const { return address_of(device.data() != nullptr ? device.data() : host.data()); }
};

using Memories = std::map<std::int64_t, MessageMemory>;

// Send buffers that a transport may still read: never freed.
void keep_forever(std::vector<Memories> buffers) {
  static auto& kept = *std::make_unique<std::deque<std::vector<Memories>>>().release();
  static auto& mutex = *std::make_unique<Mutex>().release();
  const Lock lock(mutex);
  kept.push_back(std::move(buffers));
}

// Buffers of one phase in one slot.
struct RoundMemory {
  Memories send;
  Memories receive;
  Event uploaded;  // the received messages were copied to the device
};

Memories memories_of(const std::map<std::int64_t, std::vector<Entry>>& messages, const std::vector<std::int64_t>& bytes,
                     const std::shared_ptr<Device>& device) {
  Memories out;
  std::size_t i = 0;
  std::shared_ptr<Alloc> host = std::make_shared<PageAlloc>();
  if (device != nullptr) host = device->pinned_memory();
  for (const auto& [peer, entries] : messages) {
    const auto size = static_cast<std::size_t>(bytes.at(i++));
    MessageMemory& memory = out[peer];
    if (size == 0) continue;
    memory.host = HostBuffer(host, size);
    std::fill(memory.host.bytes().begin(), memory.host.bytes().end(), std::byte{0});  // gaps of a native wire
    if (device == nullptr) continue;
    memory.device = HostBuffer(device->device_memory(), size);
    const auto stream = device->make_stream();
    stream->fill(memory.device.bytes(), std::byte{0});
    stream->record().wait();
  }
  return out;
}

std::map<std::int64_t, std::span<std::byte>> spans_of(const Memories& memories) {
  std::map<std::int64_t, std::span<std::byte>> out;
  for (const auto& [peer, memory] : memories) out[peer] = memory.host.bytes();
  return out;
}

ExchangePlanPtr plan_of(const std::vector<QuantityHaloSpec>& fields, const RankLinks& links, std::int64_t rank,
                        const Width& width, const ExchangeOptions& options) {
  for (const auto& field : fields) check(field);
  auto phases = phases_of(fields, links, rank, width, options.vectors);
  return std::make_shared<const ExchangePlan>(fields, rank, options.wire, std::move(phases));
}

}  // namespace

struct Exchanger::Token::State {
  const Exchanger::State* owner;
  int slot;
  Addresses arrays;
  bool on_stream;
  bool finished = false;
};

struct Exchanger::State {
  State(ExchangePlanPtr given, ExchangerOptions chosen) : plan(std::move(given)), options(std::move(chosen)) {
    if (plan == nullptr) throw Error(Status::inval, "an exchanger needs a plan", "arguments");
    if (options.depth < 1) throw Error(Status::inval, formatted("depth {}", options.depth));
    for (const ExchangePhase& phase : plan->phases()) {
      packs.push_back(plan->pack(phase));
      unpacks.push_back(plan->unpack(phase));
    }
    for (int slot = options.depth - 1; slot >= 0; --slot) free.push_back(slot);
    rounds.resize(static_cast<std::size_t>(options.depth));
    for (auto& phases : rounds)
      for (std::size_t n = 0; n < packs.size(); ++n)
        phases.push_back({memories_of(plan->phases()[n].sends, packs[n].buffer_bytes, options.device),
                          memories_of(plan->phases()[n].receives, unpacks[n].buffer_bytes, options.device),
                          {}});
  }

  void open(Transport& transport) {
    Rounds spans;
    for (const auto& phases : rounds) {
      spans.emplace_back();
      for (const RoundMemory& round : phases) spans.back().push_back({spans_of(round.send), spans_of(round.receive)});
    }
    channels = transport.open(plan->rank(), std::move(spans));
    std::map<std::int64_t, Digests> mine;
    for (const auto peer : plan->peers()) mine[peer] = plan->digests(peer);
    try {
      for (const auto& [peer, theirs] : channels->exchange_digests(mine))
        if (mine.at(peer).first != theirs.second || mine.at(peer).second != theirs.first)
          throw Error(Status::inval,
                      formatted("rank {} and rank {} do not agree on fields, types, wire or links", plan->rank(), peer),
                      kMisuse);
    } catch (...) {
      close();
      throw;
    }
  }

  void check_open() const {
    if (!refuses.empty()) throw Error(Status::inval, refuses, kMisuse);
  }

  bool talks() const { return !plan->peers().empty(); }

  void check_place(bool on_stream) const {
    if (on_stream != (options.device != nullptr))
      throw Error(Status::inval,
                  on_stream ? "this exchanger is for arrays in host memory: call it without a stream"
                            : "this exchanger is for arrays in device memory: pass a stream",
                  kMisuse);
  }

  Addresses checked(const std::vector<void*>& arrays) {
    check_open();
    const auto fields = plan->specs();
    if (arrays.size() != fields.size())
      throw Error(Status::inval, formatted("Quantities count: {} for {} fields", arrays.size(), fields.size()),
                  kMisuse);
    Addresses out;
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      if (arrays[n] == nullptr && product(fields[n].shape.span()).value_or(1) != 0)
        throw Error(Status::inval, formatted("array {} has no memory", n), "arguments");
      out.push_back(address_of(arrays[n]));
    }
    if (out.size() < 2 || std::find(known.begin(), known.end(), out) != known.end()) return out;
    for (std::size_t n = 0; n < packs.size(); ++n) {  // fields may share memory
      copy::check_overlaps(*packs[n].plan, bases(packs[n], out, rounds[0][n].send));
      copy::check_overlaps(*unpacks[n].plan, bases(unpacks[n], out, rounds[0][n].receive));
    }
    known.push_back(out);
    if (known.size() > kCheckedArrays) known.pop_front();
    return out;
  }

  static Addresses bases(const Compiled& compiled, const Addresses& arrays, const Memories& memories) {
    Addresses buffers, out = arrays;
    for (const auto& [peer, memory] : memories) buffers.push_back(memory.packed_at());
    for (const auto message : compiled.message_of_slot) out.push_back(buffers.at(message));
    return out;
  }

  void run(const Compiled& compiled, Addresses addresses, Stream* stream) {
    if (compiled.plan->phases().empty()) return;
    if (stream == nullptr)
      copy::run(*compiled.plan, addresses, options.threads);
    else
      order.run(*stream, {}, {}, options.device->index(), compiled.plan, std::move(addresses));
  }

  RoundMemory& round(int slot, std::size_t phase) { return rounds.at(static_cast<std::size_t>(slot)).at(phase); }

  int next_slot() const {
    check_open();
    if (posted) return *posted;
    if (free.empty())
      throw Error(Status::inval,
                  formatted("{} exchanges are in flight already: finish one, or pass a larger depth", rounds.size()),
                  kMisuse);
    return free.back();
  }

  // The slot is in flight as soon as phase 0 is sent.
  void begin(int slot, std::size_t phase, const Addresses& arrays, Stream* stream) {
    const int number = static_cast<int>(phase);
    RoundMemory& memory = round(slot, phase);
    if (talks()) {
      memory.uploaded.wait();  // the transport writes host memory
      if (phase == 0) posted = slot;
      channels->post_receives(slot, number);
    }
    run(packs[phase], bases(packs[phase], arrays, memory.send), stream);
    if (stream != nullptr && !memory.send.empty()) {
      for (auto& [peer, message] : memory.send)
        if (message.host.size() > 0) stream->copy(message.host.bytes(), message.device.bytes());
      stream->record().wait();  // the transport reads host memory
    }
    refuse_if_it_fails([&] {
      if (phase == 0) {
        posted.reset();
        std::erase(free, slot);
      }
      if (talks()) channels->send(slot, number);
    });
  }

  // What fails here leaves the exchange half done.
  template <class Step>
  void refuse_if_it_fails(Step step) {
    try {
      step();
    } catch (...) {
      refuse_after(current_error());
      throw;
    }
  }

  void finish(Token::State& token, Stream* stream) {
    for (std::size_t phase = 0; phase < packs.size(); ++phase) {
      const int number = static_cast<int>(phase);
      if (phase > 0) begin(token.slot, phase, token.arrays, stream);
      RoundMemory& memory = round(token.slot, phase);
      if (talks()) {
        channels->wait_received(token.slot, number);
        if (stream != nullptr && !memory.receive.empty()) {
          for (auto& [peer, message] : memory.receive)
            if (message.host.size() > 0) stream->copy(message.device.bytes(), message.host.bytes());
          memory.uploaded = stream->record();
        }
      }
      run(unpacks[phase], bases(unpacks[phase], token.arrays, memory.receive), stream);
      if (talks()) channels->wait_sent(token.slot, number);
    }
    free.push_back(token.slot);
  }

  void refuse_after(const Error& error) {
    refuses = formatted("an exchange failed half way ({}); close this exchanger and make another one", error.what());
  }

  void close() {
    if (channels == nullptr) return;
    refuses = "this exchanger is closed";
    const bool unused = channels->close();
    channels.reset();
    order.synchronize();
    if (unused) return;
    std::vector<Memories> sent;
    for (auto& phases : rounds)
      for (RoundMemory& memory : phases) sent.push_back(std::move(memory.send));
    keep_forever(std::move(sent));
  }

  const ExchangePlanPtr plan;
  const ExchangerOptions options;
  std::vector<Compiled> packs, unpacks;          // by phase
  std::vector<std::vector<RoundMemory>> rounds;  // by slot, then by phase
  std::unique_ptr<Channels> channels;
  std::vector<int> free;
  std::optional<int> posted;  // slot of an exchange that has not sent; its receives may be posted
  std::string refuses;        // why every call is refused
  WorkOrder order;
  std::deque<Addresses> known;  // arrays that were checked for overlap
};

Exchanger::Exchanger(ExchangePlanPtr plan, Transport& transport, ExchangerOptions options)
    : state_(std::make_unique<State>(std::move(plan), std::move(options))) {
  state_->open(transport);
}

Exchanger::~Exchanger() {
  (void)failure_of([this] { state_->close(); });
}

Exchanger::Token Exchanger::start(const std::vector<void*>& arrays) {
  state_->check_place(false);
  Token token;
  token.state_ = std::make_shared<Token::State>(
      Token::State{state_.get(), state_->next_slot(), state_->checked(arrays), /*on_stream=*/false});
  state_->begin(token.state_->slot, 0, token.state_->arrays, nullptr);
  return token;
}

Exchanger::Token Exchanger::start(Stream& stream, const std::vector<void*>& arrays) {
  state_->check_place(true);
  Token token;
  token.state_ = std::make_shared<Token::State>(
      Token::State{state_.get(), state_->next_slot(), state_->checked(arrays), /*on_stream=*/true});
  state_->begin(token.state_->slot, 0, token.state_->arrays, &stream);
  return token;
}

namespace {

template <class Token, class State, class Finish>
void finish_once(Token* token, State& state, Finish finish) {
  if (token == nullptr || token->owner != &state)
    throw Error(Status::inval, "finish: another exchanger's token", kMisuse);
  if (token->finished) throw Error(Status::inval, "finish: this token was finished already", kMisuse);
  state.check_open();
  token->finished = true;
  state.refuse_if_it_fails(finish);
}

}  // namespace

void Exchanger::finish(Token& token) {
  state_->check_place(false);
  finish_once(token.state_.get(), *state_, [&] { state_->finish(*token.state_, nullptr); });
}

void Exchanger::finish(Stream& stream, Token& token) {
  state_->check_place(true);
  finish_once(token.state_.get(), *state_, [&] { state_->finish(*token.state_, &stream); });
}

void Exchanger::exchange(const std::vector<void*>& arrays) {
  Token token = start(arrays);
  finish(token);
}

void Exchanger::exchange(Stream& stream, const std::vector<void*>& arrays) {
  Token token = start(stream, arrays);
  finish(stream, token);
}

void Exchanger::close() {
  state_->close();
}

ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const CubedSphere& sphere, std::int64_t rank,
                        std::int64_t width, const ExchangeOptions& options) {
  for (const auto& field : fields) (void)cells_of(field, std::vector<std::string>{"j", "i"});
  return plan_of(fields, links_of(sphere, rank, options.fill), rank, width, options);
}

ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const Cartesian& grid,
                        const std::vector<std::string>& dims, std::int64_t rank, const Width& width,
                        const ExchangeOptions& options) {
  check_block(fields, dims, grid.block(rank), rank);
  return plan_of(fields, links_of(grid, rank, dims, width), rank, width, options);
}

ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const RankLinks& links, std::int64_t rank,
                        const Width& width, const ExchangeOptions& options) {
  return plan_of(fields, links, rank, width, options);
}

ExchangePlanPtr compile_interfaces(const QuantityHaloSpec& x, const QuantityHaloSpec& y, const CubedSphere& sphere,
                                   std::int64_t rank) {
  check(x);
  check(y);
  auto phase = interface_phase(x, y, links_of(sphere, rank).links, rank);
  std::vector<ExchangePhase> phases;
  phases.push_back(std::move(phase));
  return std::make_shared<const ExchangePlan>(std::vector{x, y}, rank, Wire::ndsl, std::move(phases), /*lines=*/true);
}

std::vector<std::int64_t> peers_of(const ExchangePlan& plan) {
  return plan.peers();
}

}  // namespace damacy::halo
