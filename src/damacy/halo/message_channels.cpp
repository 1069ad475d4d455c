// Digests are messages like others, with a tag of their own. If they do not arrive, their memory is never freed.
#include "damacy/halo/message_channels.h"

#include <atomic>
#include <string>
#include <thread>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/on_failure.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

constexpr std::chrono::microseconds kPoll(500);

std::span<std::byte> bytes_of(Digests& digests) {
  return std::as_writable_bytes(std::span(&digests, 1));
}

std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string list;
  for (const auto rank : ranks) list += text(list.empty() ? "" : ", ", rank);
  return list;
}

}  // namespace

MessageChannels::MessageChannels(std::unique_ptr<MessageLibrary> library, std::int64_t rank, int slots, int phases,
                                 const MessageOptions& options)
    : library_(std::move(library)), rank_(rank), options_(options) {
  const OnFailure undo([this] { close(); });
  for (int slot = 0; slot < slots; ++slot) {
    requests_.emplace_back();
    for (int phase = 0; phase < phases; ++phase)
      requests_.back().push_back(library_->messages(slot, phase, options_.first_tag + phase));
  }
}

MessageChannels::~MessageChannels() {
  close();
}

std::map<std::int64_t, Digests> MessageChannels::exchange_digests(const DigestsOfPeers& mine) {
  digests_ = std::make_unique<DigestMessages>(DigestMessages{mine, mine, nullptr});  // `received` is overwritten
  Round round;
  for (auto& [peer, digests] : digests_->sent) round.send[peer] = bytes_of(digests);
  for (auto& [peer, digests] : digests_->received) round.receive[peer] = bytes_of(digests);
  digests_->requests = library_->digests(round, options_.digest_tag);
  const OnFailure undo([this] { end_digests(); });
  digests_->requests->post();
  digests_->requests->send();
  wait_for_digests(*digests_->requests);
  digests_->requests->wait_received();
  digests_->requests->wait_sent();
  DigestsOfPeers theirs = digests_->received;
  digests_.reset();
  return theirs;
}

void MessageChannels::wait_for_digests(Requests& requests) const {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  for (auto missing = requests.missing(); !missing.empty(); missing = requests.missing()) {
    if (std::chrono::steady_clock::now() > deadline) {
      library_->leave_messages();
      throw Error(Status::io,
                  formatted("rank {} timed out after {} s: ranks [{}] have no exchanger with links to it. Every rank "
                            "must construct its exchanger, and every link needs its counterpart",
                            rank_, static_cast<double>(options_.timeout.count()) / 1000, list_of(missing)),
                  kMisuse);
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void MessageChannels::end_digests() noexcept {
  if (digests_ != nullptr && digests_->requests != nullptr && !digests_->requests->cancel())
    keep_for_ever(std::move(digests_));
  digests_.reset();
}

// The library may read them until the process ends. They stay reachable, for checkers of leaks.
void MessageChannels::keep_for_ever(std::unique_ptr<DigestMessages> digests) noexcept {
  static std::atomic<DigestMessages*> kept{nullptr};
  DigestMessages* const one = digests.release();
  one->next = kept.exchange(one);
}

void MessageChannels::post_receives(int slot, int phase) {
  if (posted_.contains({slot, phase})) return;
  at(slot, phase).post();
  posted_.insert({slot, phase});
}

void MessageChannels::send(int slot, int phase) {
  posted_.erase({slot, phase});
  at(slot, phase).send();
}

bool MessageChannels::close() noexcept {
  bool unused = true;
  for (auto& phases : requests_)
    for (auto& requests : phases) unused = requests->cancel() && unused;
  requests_.clear();
  end_digests();
  return unused;
}

Requests& MessageChannels::at(int slot, int phase) const {
  return *requests_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
}

}  // namespace damacy::halo
