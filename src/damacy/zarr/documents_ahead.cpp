#include "damacy/zarr/documents_ahead.h"

#include <algorithm>
#include <utility>

#include "damacy/core/error.h"

namespace damacy {
namespace {

constexpr std::size_t kNodesAhead = 512;  // twice as many as requests under way, so that none waits for a thread
constexpr std::uint64_t kOfLate = 32;     // nodes
constexpr std::size_t kKeysKept = 8;
constexpr std::size_t kFewNodes = 64, kAnswerBytesOfFew = 64 << 10;  // what open() asks for

// ".zattrs" next to ".zarray"; empty: next to another document.
std::string attributes_next_to(const std::string& key) {
  constexpr std::string_view kArray = ".zarray", kAttributes = ".zattrs";
  if (!key.ends_with(kArray)) return {};
  return key.substr(0, key.size() - kArray.size()).append(kAttributes);
}

std::size_t answer_bytes(std::size_t nodes) {
  return nodes <= kFewNodes ? kAnswerBytesOfFew : DocumentsAhead::kAnswerBytes;
}

}  // namespace

void UsualDocuments::note(std::span<const std::string> keys) {
  const Lock lock(mutex_);
  ++notes_;
  bool is_new = false;
  for (const std::string& key : keys) {
    const auto at = std::ranges::find(used_, key, &Used::key);
    if (at != used_.end()) {
      at->last = notes_;
    } else {
      used_.push_back({key, notes_});
      is_new = true;
    }
  }
  is_new |=
      std::erase_if(used_, [&](const Used& used) DAMACY_REQUIRES(mutex_) { return used.last + kOfLate < notes_; }) > 0;
  if (!is_new) return;
  if (used_.size() > kKeysKept) used_.erase(used_.begin(), used_.end() - static_cast<std::ptrdiff_t>(kKeysKept));
  known_.keys.clear();
  for (const Used& used : used_) known_.keys.push_back(used.key);
  ++known_.version;
}

UsualDocuments::Known UsualDocuments::known() const {
  const Lock lock(mutex_);
  return known_;
}

DocumentsAhead::DocumentsAhead(std::size_t count, StoreOf store_of, std::shared_ptr<const UsualDocuments> usual,
                               const Wish& wish)
    : store_of_(std::move(store_of)),
      usual_(std::move(usual)),
      wish_(wish),
      answer_bytes_(answer_bytes(count)),
      nodes_(count) {}

DocumentsAhead::~DocumentsAhead() {
  drop(/*begun_too=*/true);
}

void DocumentsAhead::begin(std::size_t number) {
  {
    const Lock lock(mutex_);
    nodes_[number].is_begun = true;
  }
  static_cast<void>(failure_of([this] {  // without memory nothing is asked for
    while (auto order = next_order()) announce(std::move(*order));
  }));
}

std::optional<DocumentsAhead::Order> DocumentsAhead::next_order() {
  const Known usual = usual_->known();
  const Lock lock(mutex_);
  return next_order(usual);
}

// First what nodes lack that were announced before other keys became usual.
std::optional<DocumentsAhead::Order> DocumentsAhead::next_order(const Known& usual) {
  if (is_cancelled_) return std::nullopt;
  if (usual.version != version_) {
    version_ = usual.version;
    renewed_ = first_;
  }
  while (renewed_ < next_ && (nodes_[renewed_].is_begun || !nodes_[renewed_].store)) ++renewed_;
  const bool is_new = renewed_ == next_;
  while (is_new && next_ < nodes_.size() && nodes_[next_].is_ended) renewed_ = ++next_;
  if (is_new && (next_ == nodes_.size() || next_ - first_ >= kNodesAhead)) return std::nullopt;
  Node& node = nodes_[renewed_];
  Order order{renewed_, node.store, missing_keys(node, usual)};
  if ((documents_ + order.keys.size()) * answer_bytes_ > wish_.bytes) return std::nullopt;
  node.keys.insert(node.keys.end(), order.keys.begin(), order.keys.end());
  documents_ += order.keys.size();
  ++renewed_;
  if (is_new) ++next_;
  return order;
}

std::vector<std::string> DocumentsAhead::missing_keys(const Node& node, const Known& usual) const {
  std::vector<std::string> keys;
  const auto want = [&](std::string key) {
    if (!key.empty() && std::ranges::find(node.keys, key) == node.keys.end()) keys.push_back(std::move(key));
  };
  for (const std::string& key : usual.keys) {
    want(key);
    if (wish_.attributes) want(attributes_next_to(key));
  }
  return keys;
}

void DocumentsAhead::announce(Order order) {
  static_cast<void>(failure_of([&] {
    if (!order.store) order.store = store_of_(order.number);
    if (!order.store || !attach(order) || !order.store->can_expect()) return;
    for (const std::string& key : order.keys) order.store->expect(key, {.bytes = answer_bytes_});
    if (is_wanted(order)) return;
    for (const std::string& key : order.keys) order.store->unexpect(key);
  }));
}

bool DocumentsAhead::attach(const Order& order) {
  const Lock lock(mutex_);
  Node& node = nodes_[order.number];
  if (node.is_ended || is_cancelled_) return false;
  node.store = order.store;
  return true;
}

bool DocumentsAhead::is_wanted(const Order& order) {
  const Lock lock(mutex_);
  return !nodes_[order.number].is_ended && !is_cancelled_;
}

void DocumentsAhead::end(std::size_t number) noexcept {
  Node ended;
  ended.is_begun = ended.is_ended = true;
  {
    const Lock lock(mutex_);
    std::swap(ended, nodes_[number]);
    documents_ -= ended.keys.size();
    while (first_ < next_ && nodes_[first_].is_ended) ++first_;
  }
  if (ended.store)
    for (const std::string& key : ended.keys) ended.store->unexpect(key);
}

void DocumentsAhead::cancel() noexcept {
  drop(/*begun_too=*/false);
}

// The last ones first: they wait for those before them, and would be sent in their places.
void DocumentsAhead::drop(bool begun_too) noexcept {
  const Lock lock(mutex_);
  is_cancelled_ = true;
  for (std::size_t number = next_; number > first_; --number) {
    Node& node = nodes_[number - 1];
    if (node.is_begun && !begun_too) continue;
    const std::shared_ptr<Store> store = std::exchange(node.store, nullptr);
    if (!store) continue;
    for (const std::string& key : node.keys) store->unexpect(key);
  }
}

}  // namespace damacy
