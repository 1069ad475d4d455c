// What each step of an exchange does with arrays, messages and the transport. ExchangeSteps has their order.
#include "damacy/halo/exchanger.h"

#include <optional>

#include "damacy/core/formatted.h"
#include "damacy/core/on_failure.h"
#include "damacy/halo/exchange_copies.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/exchange_steps.h"
#include "damacy/halo/message_memory.h"
#include "damacy/halo/work_order.h"

namespace damacy::halo {
namespace {

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

ExchangePlanPtr plan_of(const std::vector<QuantityHaloSpec>& fields, const RankLinks& links, std::int64_t rank,
                        const Width& width, const ExchangeOptions& options) {
  for (const auto& field : fields) {
    check(field);
    (void)cells_of(field, links.dims);  // it has the decomposed dimensions
  }
  if (links.block) check_block(fields, links.dims, *links.block, rank);
  auto phases = phases_of(fields, links, rank, width, options.vectors);
  return std::make_shared<const ExchangePlan>(fields, rank, options.wire, std::move(phases));
}

}  // namespace

struct Exchanger::Token::State {
  ExchangeSteps::Started started;
  ExchangeCopies::Phases copies;
};

struct Exchanger::State {
  State(ExchangePlanPtr given, ExchangerOptions chosen, bool sends_in_stream_order)
      : plan(std::move(given)),
        options(std::move(chosen)),
        in_stream_order(sends_in_stream_order),
        steps(options.depth, static_cast<int>(checked_plan().phases().size()), talks()),
        copies(*plan, options.depth) {
    if (in_stream_order && options.device == nullptr)
      throw Error(Status::inval, "this transport sends device memory: pass the device of the arrays in the options",
                  kMisuse);
    memory.emplace(*plan, copies, options.depth, MessagePlace{options.device, in_stream_order});
  }

  void open(Transport& transport) {
    channels = transport.open(plan->rank(), memory->spans());
    std::map<std::int64_t, Digests> mine;
    for (const auto peer : plan->peers()) mine[peer] = plan->digests(peer);
    const OnFailure undo([this] { static_cast<void>(failure_of([this] { close(); })); });
    for (const auto& [peer, theirs] : channels->exchange_digests(mine))
      check_digests(plan->rank(), peer, mine.at(peer), theirs);
  }

  const ExchangePlan& checked_plan() const {
    if (plan == nullptr) throw Error(Status::inval, "an exchanger needs a plan", "arguments");
    return *plan;
  }

  bool talks() const { return !checked_plan().peers().empty(); }

  void check_place(bool on_stream) const {
    if (on_stream != (options.device != nullptr))
      throw Error(Status::inval,
                  on_stream ? "this exchanger is for arrays in host memory: call it without a stream"
                            : "this exchanger is for arrays in device memory: pass a stream",
                  kMisuse);
  }

  Addresses checked(const std::vector<void*>& arrays) const {
    steps.check();
    plan->check_count(arrays.size());
    const auto fields = plan->specs();
    Addresses out;
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      if (arrays[n] == nullptr && product(fields[n].shape.span()).value_or(1) != 0)
        throw Error(Status::inval, formatted("array {} has no memory", n), "arguments");
      out.push_back(address_of(arrays[n]));
    }
    return out;
  }

  void run(const ExchangeCopies::Copies& some, Stream* stream) {
    if (some.plan == nullptr) return;
    if (stream == nullptr)
      copy::run(*some.plan, *some.bases, options.threads);
    else
      order.run(*stream, {}, {}, options.device->index(), some.plan, some.bases);
  }

  // The steps of one exchange.
  struct Work final : ExchangeWork {
    Work(State& exchanger, const ExchangeCopies::Phases& of_arrays, Stream* of_device)
        : own(exchanger), copies(of_arrays), stream(of_device) {}

    void post_receives(int slot, int phase) override {
      own.round(slot, phase).uploaded.wait();  // the transport writes host memory
      own.in_stream_order ? own.channels->before_pack(*stream, slot, phase) : own.channels->post_receives(slot, phase);
    }

    void pack(int slot, int phase) override {
      own.run(of(phase).pack, stream);
      if (stream == nullptr || own.in_stream_order || !download(*stream, own.round(slot, phase))) return;
      stream->record().wait();  // the transport reads host memory
    }

    void send(int slot, int phase) override {
      own.in_stream_order ? own.channels->exchange(*stream, slot, phase) : own.channels->send(slot, phase);
    }

    // Brings the received messages of a phase to where they are unpacked.
    void receive(int slot, int phase) override {
      if (own.in_stream_order) return own.channels->before_unpack(*stream, slot, phase);
      own.channels->wait_received(slot, phase);
      if (stream != nullptr) upload(*stream, own.round(slot, phase));
    }

    void unpack(int, int phase) override { own.run(of(phase).unpack, stream); }

    void end_messages(int slot, int phase) override {
      own.in_stream_order ? own.channels->after_unpack(*stream, slot, phase) : own.channels->wait_sent(slot, phase);
    }

    const ExchangeCopies::Phase& of(int phase) const { return (*copies)[static_cast<std::size_t>(phase)]; }

    State& own;
    const ExchangeCopies::Phases& copies;
    Stream* const stream;  // null: arrays in host memory
  };

  RoundMemory& round(int slot, int phase) { return memory->at(slot, phase); }

  std::shared_ptr<Token::State> start(const std::vector<void*>& arrays, Stream* stream) {
    check_place(stream != nullptr);
    const int slot = steps.next();
    const auto token = std::make_shared<Token::State>(Token::State{{}, copies.of(slot, checked(arrays))});
    Work work(*this, token->copies, stream);
    token->started = steps.start(slot, work);
    return token;
  }

  void finish(Token::State* token, Stream* stream) {
    check_place(stream != nullptr);
    const ExchangeCopies::Phases none;
    Work work(*this, token == nullptr ? none : token->copies, stream);
    steps.finish(token == nullptr ? nullptr : &token->started, work);
  }

  void close() {
    if (channels == nullptr) return;
    steps.close();
    const bool unused = channels->close();
    channels.reset();
    order.synchronize();
    if (!unused) std::move(*memory).keep_forever();
  }

  const ExchangePlanPtr plan;
  const ExchangerOptions options;
  const bool in_stream_order;  // as the transport sends
  std::optional<ExchangeMemory> memory;
  std::unique_ptr<Channels> channels;
  ExchangeSteps steps;
  ExchangeCopies copies;
  WorkOrder order;
};

Exchanger::Exchanger(ExchangePlanPtr plan, Transport& transport, ExchangerOptions options)
    : state_(std::make_unique<State>(std::move(plan), std::move(options), transport.sends_in_stream_order())) {
  state_->open(transport);
}

Exchanger::~Exchanger() {
  (void)failure_of([this] { state_->close(); });
}

Exchanger::Token Exchanger::start(const std::vector<void*>& arrays) {
  Token token;
  token.state_ = state_->start(arrays, nullptr);
  return token;
}

Exchanger::Token Exchanger::start(Stream& stream, const std::vector<void*>& arrays) {
  Token token;
  token.state_ = state_->start(arrays, &stream);
  return token;
}

void Exchanger::finish(Token& token) {
  state_->finish(token.state_.get(), nullptr);
}

void Exchanger::finish(Stream& stream, Token& token) {
  state_->finish(token.state_.get(), &stream);
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
  return plan_of(fields, links_of(sphere, rank, options.fill), rank, width, options);
}

ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const Cartesian& grid,
                        const std::vector<std::string>& dims, std::int64_t rank, const Width& width,
                        const ExchangeOptions& options) {
  return plan_of(fields, links_of(grid, rank, dims, width), rank, width, options);
}

ExchangePlanPtr compile(const std::vector<QuantityHaloSpec>& fields, const RankLinks& links, std::int64_t rank,
                        const Width& width, const ExchangeOptions& options) {
  return plan_of(fields, links, rank, width, options);
}

ExchangePlanPtr compile_interfaces(const QuantityHaloSpec& x, const QuantityHaloSpec& y, const CubedSphere& sphere,
                                   std::int64_t rank) {
  return compile_interfaces(x, y, links_of(sphere, rank), rank);
}

ExchangePlanPtr compile_interfaces(const QuantityHaloSpec& x, const QuantityHaloSpec& y, const RankLinks& links,
                                   std::int64_t rank) {
  check(x);
  check(y);
  auto phase = interface_phase(x, y, links.links, rank);
  std::vector<ExchangePhase> phases;
  phases.push_back(std::move(phase));
  return std::make_shared<const ExchangePlan>(std::vector{x, y}, rank, Wire::ndsl, std::move(phases), /*lines=*/true);
}

std::vector<std::int64_t> peers_of(const ExchangePlan& plan) {
  return plan.peers();
}

}  // namespace damacy::halo
