// Digests are messages like others, with a tag of their own. If they do not arrive, their memory is never freed.
#include "damacy/halo/message_channels.h"

#include <atomic>
#include <string>
#include <thread>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/on_failure.h"
#include "damacy/halo/message_tags.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

constexpr std::chrono::microseconds kPoll(500);

template <class Announced>
std::span<std::byte> bytes_of(Announced& announced) {
  return std::as_writable_bytes(std::span(&announced, 1));
}

std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string list;
  for (const auto rank : ranks) list += formatted("{}{}", list.empty() ? "" : ", ", rank);
  return list;
}

}  // namespace

std::shared_ptr<MessageTags> mpi_tags() {
  return std::make_shared<MessageTags>(kHighestTag, 0, kHighestTag - 1);
}

MessageChannels::MessageChannels(std::unique_ptr<MessageLibrary> library, std::int64_t rank, int slots, int phases,
                                 const MessageOptions& options)
    : library_(std::move(library)),
      rank_(rank),
      slots_(slots),
      phases_(phases),
      options_(options),
      first_tag_(options_.tags->take(phases)) {}

MessageChannels::~MessageChannels() {
  close();
}

std::map<std::int64_t, Digests> MessageChannels::exchange_digests(const DigestsOfPeers& mine) {
  const auto announced = announce(mine);
  for (int slot = 0; slot < slots_; ++slot) {
    requests_.emplace_back();
    for (int phase = 0; phase < phases_; ++phase) {
      Tags tags{{}, *first_tag_ + phase};
      for (const auto& [peer, theirs] : announced) tags.send[peer] = static_cast<int>(theirs.first_tag) + phase;
      requests_.back().push_back(library_->messages(slot, phase, tags));
    }
  }
  DigestsOfPeers theirs;
  for (const auto& [peer, one] : announced) theirs[peer] = {one.sent, one.expected};
  return theirs;
}

std::map<std::int64_t, MessageChannels::Announced> MessageChannels::announce(const DigestsOfPeers& mine) {
  digests_ = std::make_unique<DigestMessages>();
  Tags tags{{}, options_.tags->of_digests()};
  for (const auto& [peer, digests] : mine) {
    digests_->sent[peer] = {digests.first, digests.second, *first_tag_};
    digests_->received[peer] = {};
    tags.send[peer] = tags.receive;
  }
  Round round;
  for (auto& [peer, announced] : digests_->sent) round.send[peer] = bytes_of(announced);
  for (auto& [peer, announced] : digests_->received) round.receive[peer] = bytes_of(announced);
  digests_->requests = library_->digests(round, tags);
  bool sent = false;  // in part, or all
  const OnFailure undo([&] {
    if (sent) options_.tags->refuse();  // a peer that is late would take them for those of a later exchanger
    end_digests();
  });
  digests_->requests->post();
  sent = true;
  digests_->requests->send();
  wait_for_digests(*digests_->requests);
  digests_->requests->wait_received();
  digests_->requests->wait_sent();
  auto theirs = digests_->received;
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
  if (const auto first = std::exchange(first_tag_, std::nullopt)) options_.tags->give(*first);
  return unused;
}

Requests& MessageChannels::at(int slot, int phase) const {
  return *requests_.at(static_cast<std::size_t>(slot)).at(static_cast<std::size_t>(phase));
}

}  // namespace damacy::halo
