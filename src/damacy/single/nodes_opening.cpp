#include "damacy/single/nodes_opening.h"

#include <algorithm>
#include <set>
#include <utility>

#include "damacy/core/cores.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/store/mounts.h"
#include "damacy/zarr/documents_ahead.h"

namespace damacy {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr std::size_t kWaitingThreads = 128;  // for stores that answer only a thread that waits
constexpr std::size_t kWorkingThreads = 8;    // for answers that were asked for ahead
constexpr std::size_t kAnswerBytes = 16 << 20;

// Scheme, host and port: all uris that share them are probably of the same kind of store.
std::string origin_of(const std::string& uri) {
  const std::string scheme = scheme_of_uri(uri);
  return scheme.empty() ? scheme : uri.substr(0, uri.find('/', scheme.size() + 3));
}

bool are_expected(const std::vector<std::string>& uris) {
  std::set<std::string> seen;
  return std::ranges::all_of(uris, [&](const std::string& uri) {
    if (!seen.insert(origin_of(uri)).second) return true;
    bool is_expected = false;
    static_cast<void>(failure_of([&] { is_expected = store_of_uri(uri)->can_expect(); }));
    return is_expected;
  });
}

ThreadCounts counts_for(const std::vector<std::string>& uris) {
  const std::size_t most =
      are_expected(uris) ? std::clamp<std::size_t>(usable_cores(), 2, kWorkingThreads) : kWaitingThreads;
  ThreadCounts counts;
  counts.readers = counts.readers_at_once = std::clamp<std::size_t>(uris.size(), 1, most);
  counts.blocking = 1;
  return counts;
}

}  // namespace

// Shared with threads that storage holds.
class NodesOpening::Calls final : public BlockingCalls {
 public:
  Calls(std::vector<std::string> uris, What what)
      : uris_(std::move(uris)),
        what_(what),
        places_(uris_.size()),
        opened_(uris_.size()),
        ahead_(uris_.size(), [this](std::size_t number) { return place_of(number).store; }, usual_,
               {kAnswerBytes, /*attributes=*/true}) {}

  const std::vector<std::string>& uris() const noexcept { return uris_; }

  void call(std::size_t number) override {
    ahead_.begin(number);
    Opened opened;
    try {
      open(number, opened);
    } catch (const std::exception&) {
      opened.error = std::current_exception();
    }
    keep(number, std::move(opened));
    ahead_.end(number);
  }
  void time_out(std::size_t number, const Error& why) noexcept override {
    keep(number, {std::nullopt, {}, std::make_exception_ptr(Error(why).at_uri(uris_[number]))});
  }
  std::vector<Opened> take(std::size_t most, const std::function<void()>& while_waiting);
  void close() noexcept {
    {
      const Lock lock(mutex_);
      is_closed_ = true;
    }
    ahead_.cancel();
  }

 private:
  struct Place {
    MountedUri mounted;
    std::shared_ptr<Store> store;
  };
  Place place_of(std::size_t number);
  void open(std::size_t number, Opened& opened);
  void keep(std::size_t number, Opened opened) noexcept;
  bool is_there() const noexcept DAMACY_REQUIRES(mutex_) {
    return taken_ == opened_.size() || opened_[taken_].node || opened_[taken_].error;
  }

  const std::vector<std::string> uris_;
  const What what_;
  const std::shared_ptr<UsualDocuments> usual_ = std::make_shared<UsualDocuments>();
  Mutex mutex_;
  Condition changed_;
  std::vector<Place> places_ DAMACY_GUARDED_BY(mutex_);  // of nodes that are asked for
  std::vector<Opened> opened_ DAMACY_GUARDED_BY(mutex_);
  std::size_t taken_ DAMACY_GUARDED_BY(mutex_) = 0;
  bool is_closed_ DAMACY_GUARDED_BY(mutex_) = false;
  DocumentsAhead ahead_;  // last: it ends before what it uses
};

// The same one for what is asked ahead and for what opens the node.
NodesOpening::Calls::Place NodesOpening::Calls::place_of(std::size_t number) {
  {
    const Lock lock(mutex_);
    if (places_[number].store) return places_[number];
  }
  Place made{find_mount(uris_[number]), nullptr};
  made.store = store_of_node(made.mounted);
  const Lock lock(mutex_);
  if (!places_[number].store) places_[number] = std::move(made);
  return places_[number];
}

void NodesOpening::Calls::open(std::size_t number, Opened& opened) {
  Place place = place_of(number);
  const auto& store = place.store;
  NodeInfo info;
  if (what_ == What::nodes)
    info = node_info(uris_[number], store);
  else
    info.array = array_info(uris_[number], store);
  if (store->is_remote()) usual_->note(info.looked_for);
  opened.node = std::move(info);
  opened.place = std::move(place.mounted);
}

void NodesOpening::Calls::keep(std::size_t number, Opened opened) noexcept {
  Place place;  // ends without the lock
  {
    const Lock lock(mutex_);
    std::swap(place, places_[number]);
    opened_[number] = std::move(opened);
    if (number != taken_) return;
  }
  changed_.notify_all();
}

std::vector<NodesOpening::Opened> NodesOpening::Calls::take(std::size_t most,
                                                            const std::function<void()>& while_waiting) {
  Lock lock(mutex_);
  while (!is_there()) {
    if (is_closed_) throw Error(Status::shutdown, "the opening of nodes was closed", "closed");
    if (changed_.wait_for(lock, kLook, [this]() DAMACY_REQUIRES(mutex_) { return is_there(); })) break;
    lock.unlock();
    while_waiting();
    lock.lock();
  }
  std::vector<Opened> taken;
  for (; taken.size() < most && taken_ < opened_.size() && is_there(); ++taken_)
    taken.push_back(std::exchange(opened_[taken_], {}));
  return taken;
}

NodesOpening::NodesOpening(std::vector<std::string> uris, What what, const std::shared_ptr<const Clock>& clock)
    : calls_(std::make_shared<Calls>(std::move(uris), what)),
      readers_(std::make_shared<Readers>(counts_for(calls_->uris()), clock)) {
  const std::size_t count = calls_->uris().size();
  readers_->run_blocking(calls_, count, count, [] {});
}

NodesOpening::~NodesOpening() {
  close();
  if (fork_epoch() != epoch_)
    static_cast<void>(new std::shared_ptr<Readers>(readers_));  // its threads are the parent's
}

std::vector<NodesOpening::Opened> NodesOpening::take(std::size_t most, const std::function<void()>& while_waiting) {
  return calls_->take(most, [&] {
    readers_->abandon_overdue();
    if (while_waiting) while_waiting();
  });
}

void NodesOpening::close() noexcept {
  if (fork_epoch() != epoch_) return;
  calls_->close();
  readers_->stop(readers_);
}

}  // namespace damacy
