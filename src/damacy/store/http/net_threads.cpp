#include "damacy/store/http/net_threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <new>
#include <system_error>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/machine.h"
#include "damacy/core/on_failure.h"

namespace damacy::http {
namespace {

constexpr auto kLook = std::chrono::milliseconds(10);  // for late tasks
constexpr auto kIdle = std::chrono::milliseconds(60'000);
constexpr auto kPatience = std::chrono::seconds(5);  // of stop()
constexpr std::size_t kThreadsAtMost = 64;
constexpr std::size_t kOriginsKept = 1024;
constexpr std::uint64_t kPartOfFiles = 4;  // of the descriptors that the process may have, for one origin

}  // namespace

std::size_t NetThreads::count_of(const char* setting, std::size_t cores) noexcept {
  if (setting != nullptr) {
    const std::string_view text(setting);
    std::size_t count = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (code == std::errc() && end == text.data() + text.size() && count > 0) return std::min(count, kThreadsAtMost);
  }
  return std::clamp<std::size_t>(cores / 4, 1, 4);
}

NetThreads& NetThreads::of_process() {
  // Registered after libcurl was loaded, so that it runs before the handlers of libraries that libcurl uses.
  static_cast<void>(curl());
  static const int registered = std::atexit([] { one_per_process<NetThreads>().stop(); });
  static_cast<void>(registered);
  return one_per_process<NetThreads>();
}

void NetThreads::start_threads() {
  if (count_ == 0) {
    const Machine machine = read_machine();
    count_ = count_of(std::getenv("DAMACY_NET_THREADS"), machine.cores);
    connections_at_most_ = static_cast<std::size_t>(std::max<std::uint64_t>(machine.open_files / kPartOfFiles, 1));
  }
  while (workers_.size() < count_) {
    auto worker = std::make_shared<Worker>();
    workers_.reserve(count_);
    try {
      worker->thread = Thread("damacy-net", [this, worker] { serve(*worker); });
    } catch (const std::system_error& error) {
      if (!workers_.empty()) return;
      throw Error(Status::oom, formatted("cannot start a network thread: {}", std::string_view(error.what())), "memory")
          .with_errno(error.code().value());
    }
    workers_.push_back(std::move(worker));
  }
}

void NetThreads::submit(std::shared_ptr<NetTask> task, std::string_view origin, std::size_t most) {
  {
    const Lock lock(mutex_);
    if (!stopping_) {
      start_threads();
      Place& place = places_[task.get()];
      const OnFailure undo([&]() DAMACY_REQUIRES(mutex_) { places_.erase(task.get()); });
      place.origin = origin_of(origin);
      Origin& there = place.origin->second;
      there.window.set_most(std::min(most, connections_at_most_));
      if (there.under_way < there.window.size())
        send(task, place);
      else
        there.waiting.push_back(task);
      return;
    }
  }
  task->ended(curl_code::aborted);
}

// Origins stay when no task is under way to them, because their windows were found by trying.
NetThreads::Origins::pointer NetThreads::origin_of(std::string_view name) {
  std::string key(name);
  if (const auto at = origins_.find(key); at != origins_.end()) return &*at;
  if (origins_.size() >= kOriginsKept)
    std::erase_if(origins_, [](const auto& each) { return each.second.under_way == 0 && each.second.waiting.empty(); });
  return &*origins_.try_emplace(std::move(key)).first;
}

void NetThreads::send(const std::shared_ptr<NetTask>& task, Place& place) {
  Worker& fewest = **std::min_element(workers_.begin(), workers_.end(),
                                      [](const auto& a, const auto& b) { return a->tasks < b->tasks; });
  fewest.fresh.push_back({task, place.origin->second.window.size()});
  place.worker = &fewest;
  ++fewest.tasks;
  ++place.origin->second.under_way;
  fewest.reactor.wake_up();
}

void NetThreads::send_waiting(Origin& origin) noexcept {
  while (!origin.waiting.empty() && origin.under_way < origin.window.size() && !stopping_) {
    const std::shared_ptr<NetTask> next = origin.waiting.front();
    try {
      send(next, places_.at(next.get()));
    } catch (const std::bad_alloc&) {  // it is sent after the next end
      return;
    }
    origin.waiting.pop_front();
  }
}

// The next tasks of its origin take its place.
void NetThreads::leave(const std::shared_ptr<NetTask>& task, const RequestWindow::End* end) noexcept {
  const auto at = places_.find(task.get());
  const Place place = at->second;
  places_.erase(at);
  Origin& origin = place.origin->second;
  if (place.worker == nullptr) {
    std::erase(origin.waiting, task);
  } else {
    if (end != nullptr) {
      RequestWindow::End known = *end;
      known.all_used = origin.under_way >= origin.window.size();
      origin.window.ended(std::chrono::steady_clock::now().time_since_epoch(), known);
    }
    --place.worker->tasks;
    --origin.under_way;
    send_waiting(origin);
  }
}

void NetThreads::end(std::shared_ptr<NetTask> task, int code) noexcept {
  const RequestWindow::End end = task->outcome(code);
  {
    const Lock lock(mutex_);
    leave(task, code == curl_code::aborted ? nullptr : &end);
  }
  task->ended(code);
}

void NetThreads::cancel(const std::shared_ptr<NetTask>& task) noexcept {
  {
    const Lock lock(mutex_);
    const auto at = places_.find(task.get());
    if (at == places_.end()) return;
    if (Worker* const worker = at->second.worker) {
      try {
        worker->unwanted.push_back(task);
      } catch (const std::bad_alloc&) {  // it ends by itself, or at its deadline
      }
      worker->reactor.wake_up();
      return;
    }
    leave(task);
  }
  task->ended(curl_code::aborted);
}

// What other threads want. False: stop.
bool NetThreads::take_orders(Worker& worker, Running& running) noexcept {
  std::vector<Fresh> fresh;
  std::vector<std::shared_ptr<NetTask>> unwanted;
  bool stopping = false;
  worker.reactor.listen();
  {
    const Lock lock(mutex_);
    fresh.swap(worker.fresh);
    unwanted.swap(worker.unwanted);
    stopping = stopping_;
  }
  const SteadyTime now = std::chrono::steady_clock::now();
  for (auto& [task, allowed] : fresh) {
    void* const handle = task->handle();
    bool added = false;
    try {
      running.emplace(handle, task);
      task->begins(now, allowed);
      added = worker.reactor.add(handle);
    } catch (const std::bad_alloc&) {
    }
    if (added) continue;
    running.erase(handle);
    end(std::move(task), curl_code::out_of_memory);
  }
  for (std::shared_ptr<NetTask>& task : unwanted) {
    const auto at = running.find(task->handle());
    if (at == running.end() || at->second != task) continue;  // it has ended
    worker.reactor.remove(at->first);
    running.erase(at);
    end(std::move(task), curl_code::aborted);
  }
  return !stopping;
}

void NetThreads::serve(Worker& worker) noexcept {
  Running running;
  const auto end_early = [&](Running::iterator at, int code) {
    worker.reactor.remove(at->first);
    std::shared_ptr<NetTask> task = std::move(at->second);
    const auto next = running.erase(at);
    end(std::move(task), code);
    return next;
  };
  const Reactor::Ended ended = [&](void* handle, int code) {
    const auto at = running.find(handle);
    std::shared_ptr<NetTask> task = std::move(at->second);
    running.erase(at);
    end(std::move(task), code);
  };
  SteadyTime looked{};
  while (take_orders(worker, running)) {
    worker.reactor.turn(running.empty() ? kIdle : kLook, ended);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now - looked < kLook) continue;
    looked = now;
    for (const auto& [handle, task] : running) task->look(now);
    for (auto at = running.begin(); at != running.end();)
      at = at->second->is_late(now) ? end_early(at, curl_code::timed_out) : std::next(at);
  }
  while (!running.empty()) end_early(running.begin(), curl_code::aborted);
  const Lock lock(mutex_);
  worker.has_ended = true;
  changed_.notify_all();
}

void NetThreads::stop() noexcept {
  Lock lock(mutex_);
  stopping_ = true;
  for (const auto& worker : workers_) worker->reactor.wake_up();
  for (;;) {
    const auto waiting = std::find_if(origins_.begin(), origins_.end(),
                                      [](const auto& origin) { return !origin.second.waiting.empty(); });
    if (waiting == origins_.end()) break;
    const std::shared_ptr<NetTask> task = waiting->second.waiting.front();
    leave(task);
    lock.unlock();
    task->ended(curl_code::aborted);
    lock.lock();
  }
  const bool all = changed_.wait_for(lock, kPatience, [this]() DAMACY_REQUIRES(mutex_) {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->has_ended; });
  });
  std::vector<std::shared_ptr<Worker>> workers;
  workers.swap(workers_);
  lock.unlock();
  for (const auto& worker : workers) {
    if (all)
      worker->thread.join();
    else
      worker->thread.leave_alone();
  }
}

}  // namespace damacy::http
